"""No process leaves a core file: it would hold what people and models have said, keys and passwords."""

from resource import RLIMIT_CORE, setrlimit


def forbid_core_files() -> None:
    """For this process and those that it starts; none of them can take it back, unless it is root.

    A system that pipes its cores to a program (systemd-coredump) tells that program the limit, which keeps to it.
    """
    setrlimit(RLIMIT_CORE, (0, 0))
