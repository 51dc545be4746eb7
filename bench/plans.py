"""Plans of Postgres in the folder of a run, a file each."""

from pathlib import Path

PLAN = ".plan.txt"


def write_plan(folder: Path, name: str, plan: str) -> None:
    """How Postgres carried out a statement, and which. The last round's stays."""
    (folder / f"{name}{PLAN}").write_text(plan + "\n")


def read_plans(folder: Path) -> dict[str, str]:
    """The plans of a run by their names, in the order in which they were made."""
    files = sorted(folder.glob(f"*{PLAN}"), key=lambda file: file.stat().st_mtime_ns)
    return {file.name.removesuffix(PLAN): file.read_text().rstrip() for file in files}
