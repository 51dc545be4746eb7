"""What processes cost, from the operating system: CPU of a whole process tree, its memory, and the rest of the machine."""

import os
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Tree:
    root: psutil.Process

    @classmethod
    def of(cls, pid: int) -> "Tree":
        return cls(psutil.Process(pid))

    def members(self) -> list[psutil.Process]:
        """All that live now; none if the root is gone."""
        with suppress(psutil.Error):
            return [self.root, *self.root.children(recursive=True)]
        return []

    def cpu_seconds(self) -> float:
        """User and system time of all, including descendants that have ended and were waited for."""
        total = 0.0
        for process in self.members():
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def rss_bytes(self) -> int:
        """Resident memory of all. Shared pages count once for each: a prefork pool looks bigger than it is."""
        total = 0
        for process in self.members():
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total

    def memory_bytes(self) -> int:
        """Memory of all, a shared page divided among those who share it. Resident memory where the system does not say."""
        total = 0
        for process in self.members():
            with suppress(psutil.Error):
                memory = process.memory_full_info()
                total += getattr(memory, "pss", memory.rss)
        return total


def machine_busy_seconds() -> float:
    """CPU used since the machine started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def own_cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system
