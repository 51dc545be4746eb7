"""Chooses the account and the data folder of the servers.

PostgreSQL refuses to run as root. If the caller is root, the servers run under an existing unprivileged account, else under the
caller's account. An unprivileged account often has no access to a checkout below a home folder of mode 0700, or to the virtual
environment in it. Then the data and copies of the programs are in a private folder below the system's temporary folder. Folders
that this code did not create are never changed.
"""

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from turnstile.ops.dev.stack.processes import Account, LocalStackError, run

_UNPRIVILEGED = ("nobody", "daemon", "postgres")


@dataclass(frozen=True)
class Quarters:
    """Account and data folder of the servers. `folder` is the stack's home, unless the account has no access to it."""

    folder: Path
    account: Account | None

    def room(self, name: str) -> Path:
        """The folder of one server, created if missing. Only its account has access (mode 0700)."""
        room = self.folder / name
        room.mkdir(mode=0o700, exist_ok=True)
        if self.account and room.stat().st_uid != self.account.uid:
            os.chown(room, self.account.uid, self.account.gid)
        return room

    def can_execute(self, program: Path, *read: Path) -> bool:
        """Whether the account can execute `program` and read the files `read`."""
        tests = " && ".join(['test -x "$1"'] + [f'test -r "${index}"' for index in range(2, 2 + len(read))])
        return run(["/bin/sh", "-c", tests, "sh", str(program), *map(str, read)], account=self.account).returncode == 0

    def copy_of(self, root: Path, parts: Iterable[str]) -> Path:
        """Copies the named parts of a tree to a folder that the account can read; returns the root of the copy."""
        if self.account is None:
            raise LocalStackError(f"no permission to read and execute the files in {root}")
        names = [name for name in parts if (root / name).exists()]
        # With the stamp, an upgraded package gives a new copy. Without it, the old programs would still be used.
        stamp = hashlib.sha256(repr([(str(root / name), (root / name).stat().st_mtime_ns) for name in names]).encode())
        copy = _reachable_folder(self.folder, self.account) / f"programs-{stamp.hexdigest()[:12]}"
        if copy.exists():
            return copy
        draft = copy.with_name(f"{copy.name}.{os.getpid()}.{hashlib.sha256(os.urandom(8)).hexdigest()[:6]}.new")
        for name in names:
            target = draft / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (root / name).is_dir():
                shutil.copytree(root / name, target)
            else:
                shutil.copyfile(root / name, target)
        # Package installers use the umask of their user: with 077, the account could not read the copy either.
        for path in [draft, *draft.rglob("*")]:
            path.chmod(0o755)
        try:
            draft.rename(copy)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)  # another service made the same copy first
            if not copy.exists():
                raise
        return copy


def choose(home: Path, recorded: Path | None) -> Quarters:
    """The quarters of the stack at `home`. Keeps the recorded folder, because the data is there."""
    if os.geteuid() != 0:
        return Quarters(home, None)
    account = _unprivileged_account()
    if recorded is not None and recorded.is_dir() and _can_enter(recorded, account):
        return Quarters(recorded, account)
    return Quarters(_reachable_folder(home, account), account)


def _unprivileged_account() -> Account:
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise LocalStackError(
        f"PostgreSQL does not run as root and none of the accounts {', '.join(_UNPRIVILEGED)} exists: "
        "run this as an ordinary user"
    )


def _can_enter(folder: Path, account: Account) -> bool:
    try:
        return run(["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)], account=account).returncode == 0
    except PermissionError as error:
        raise LocalStackError(
            f"this root may not become {account.name} (a restricted container?): run this as an ordinary user"
        ) from error


def _reachable_folder(home: Path, account: Account) -> Path:
    """`home`, or a private folder that the account can enter; always the same folder for the same home."""
    if _can_enter(home, account):
        return home
    name = f"turnstile-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"
    # TMPDIR may be below the same private folder; the other two are open to all accounts by convention.
    for parent in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]):  # noqa: S108 - checked below
        folder = Path(parent) / name
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            # Another user could create a folder with this name first, and would then own the folder of our data.
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise LocalStackError(
                    f"{folder} is not ours: remove it, or set TURNSTILE_HOME to another folder"
                ) from None
        except OSError:
            continue
        os.chown(folder, -1, account.gid)
        folder.chmod(0o710)
        if _can_enter(folder, account):
            return folder
        folder.rmdir()
    raise LocalStackError(
        f"{account.name} can enter neither {home} nor a temporary folder: set TURNSTILE_HOME to one it can"
    )
