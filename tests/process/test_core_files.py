"""A process that crashes leaves no copy of its memory."""

import subprocess
import sys
from pathlib import Path

AS_MUCH_AS_ALLOWED = "import resource as r; r.setrlimit(r.RLIMIT_CORE, (r.getrlimit(r.RLIMIT_CORE)[1],) * 2)"
FORBID = "from turnstile.process.core_files import forbid_core_files; forbid_core_files()"
CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGABRT)"


def run(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )


def test_a_command_and_what_it_starts_may_not_write_a_core_file(tmp_path: Path) -> None:
    command = "import sys; from turnstile.ops.main import main; sys.argv = ['turnstile', '--version']"
    shows = f"{AS_MUCH_AS_ALLOWED}; print(r.getrlimit(r.RLIMIT_CORE))"
    starts = f"import subprocess; subprocess.run([sys.executable, '-c', {shows!r}])"
    ran = run(tmp_path, f"{AS_MUCH_AS_ALLOWED}\n{command}\ntry: main()\nexcept SystemExit: {starts}")

    assert ran.stdout.splitlines()[-1] == "(0, 0)", ran.stderr


def test_a_crash_leaves_nothing_behind(tmp_path: Path) -> None:
    ran = run(tmp_path, f"{AS_MUCH_AS_ALLOWED}\n{FORBID}\n{CRASH}")

    assert ran.returncode < 0, ran.stderr
    assert list(tmp_path.iterdir()) == []
