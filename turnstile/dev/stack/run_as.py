"""Chooses the account and the data folder of the servers.

PostgreSQL refuses to run as root. If the caller is root, the servers run as `nobody`. That account has no access to a checkout
below a home folder of mode 0700, or to the virtual environment in it: so the data and copies of the programs are in a private
folder below /var/tmp.
"""

import contextlib
import hashlib
import os
import pwd
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from turnstile.dev.stack.processes import LocalStackError, private, run

_UNPRIVILEGED = "nobody"


@dataclass(frozen=True)
class RunAs:
    """Account and data folder of the servers. `account` None is the caller's account; `folder` is then the stack's home."""

    folder: Path
    account: pwd.struct_passwd | None

    def make_folder(self, name: str) -> Path:
        """The folder of one server, created if missing. Only its account has access (mode 0700)."""
        self._make_root()
        folder = self.folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.account:
            os.chown(folder, self.account.pw_uid, self.account.pw_gid)
        return folder

    def write_secret(self, file: Path, text: str) -> None:
        """Writes a file in a server's folder that only its account can read: an argument would show in `ps`."""
        file.unlink(missing_ok=True)
        with open(file, "x", opener=private) as opened:
            opened.write(text)
        if self.account:
            os.chown(file, self.account.pw_uid, self.account.pw_gid)

    def find_programs(self, root: Path, parts: Iterable[str]) -> Path:
        """`root`, or the root of a copy of its `parts` that the account can read and execute."""
        if self.account is None:
            return root
        names = [name for name in parts if (root / name).exists()]
        # With the stamp, an upgraded package gives a new copy. Without it, the old programs would still be used.
        stamp = hashlib.sha256(repr([(str(root / name), (root / name).stat().st_mtime_ns) for name in names]).encode())
        copy = self.folder / f"programs-{stamp.hexdigest()[:12]}"
        if copy.exists():
            return copy
        self._make_root()
        # An interrupted copy has another name.
        draft = copy.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        for name in names:
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            # By a child process: a server that another thread starts meanwhile would inherit a file that this process is
            # writing, and a program that any process can write is busy (ETXTBSY) for all who start it.
            copied = run(["cp", "-RL", str(root / name), str(draft / name)], account=None)
            if copied.returncode:
                raise LocalStackError(f"cannot copy the programs of the servers: {copied.stdout.strip()}")
        # Package installers use the umask of their user: with 077, the account could not read the copy either.
        for path in [draft, *draft.rglob("*")]:
            path.chmod(0o755)
        return draft.rename(copy)

    def _make_root(self) -> None:
        if self.account is None:
            return
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        # Another user could create a folder with this name first, and would then own the folder of our data.
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise LocalStackError(f"{self.folder} is not ours: remove it, or set TURNSTILE_HOME to another folder")
        os.chown(self.folder, -1, self.account.pw_gid)
        self.folder.chmod(0o710)


def choose(home: Path) -> RunAs:
    """The account and the folder for the stack at `home`; always the same for the same home."""
    if os.geteuid() != 0:
        return RunAs(home, None)
    try:
        account = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError as error:
        raise LocalStackError(
            f"PostgreSQL does not run as root and there is no account {_UNPRIVILEGED}: run this as an ordinary user"
        ) from error
    return RunAs(Path("/var/tmp") / f"turnstile-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}", account)  # noqa: S108
