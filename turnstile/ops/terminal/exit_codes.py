"""The exit codes of the commands, and error messages in one line without a stack trace."""

import errno
from enum import IntEnum

from turnstile.errors import (
    FORBIDDEN,
    MISFIT,
    MISFITS,
    AddressUnusableError,
    DatabaseUnavailableError,
    DatabaseUnfitError,
    QueueUnavailableError,
    RowLockedError,
    SettingsError,
    TurnstileError,
    UnknownQueueError,
)

_NOT_ALLOWED = "42501"
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ExitCode(IntEnum):
    """The exit codes. MEANINGS describes each of them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    FINDINGS = 5
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[int, str] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "what was asked for failed, the check did not hold, or a question was answered with no",
    ExitCode.USAGE: (
        "the command line or the settings are refused, a server shows a bad certificate, or no AWS credentials are configured; "
        "nothing was done"
    ),
    ExitCode.NOT_FOUND: "no such turn, queue, key, revision or stack",
    ExitCode.UNAVAILABLE: (
        "a service is away (database, queue, API), and the same command may work later; or the tables are of another version: "
        "`turnstile migrate`; or the database's role lacks rights on them; or a stopped worker could not hand its turns back"
    ),
    ExitCode.FINDINGS: "`turnstile doctor` looked at everything and found something wrong",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
    ExitCode.TERMINATED: "ended by SIGTERM: `api`, `worker`, `relay`, `dev` before they begin, any other command at any point",
}
"""Descriptions for the reference page."""


class CommandError(Exception):
    """Ends a command. The message is shown to the operator."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


_KNOWN: tuple[tuple[type[TurnstileError], ExitCode, str], ...] = (
    (SettingsError, ExitCode.USAGE, "settings: "),
    (AddressUnusableError, ExitCode.USAGE, ""),
    (UnknownQueueError, ExitCode.NOT_FOUND, ""),
    (
        RowLockedError,
        ExitCode.UNAVAILABLE,
        "another transaction has locked what this needs; `turnstile doctor` names it: ",
    ),
    (DatabaseUnfitError, ExitCode.UNAVAILABLE, ""),
    (DatabaseUnavailableError, ExitCode.UNAVAILABLE, "the database does not answer: "),
    (QueueUnavailableError, ExitCode.UNAVAILABLE, "SQS does not answer: "),
    (TurnstileError, ExitCode.FAILED, ""),
)


def explain(error: BaseException) -> tuple[ExitCode, str]:
    """The exit code and the message line for an error that ended a command."""
    # The further lines of a service's error may contain a log or the values of a row.
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, CommandError):
        return error.code, line
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED, "interrupted"
    for kind, code, prefix in _KNOWN:
        if isinstance(error, kind):
            return code, f"{prefix}{line}"
    if getattr(error, "sqlstate", None) in MISFITS:
        return ExitCode.UNAVAILABLE, MISFIT
    if getattr(error, "sqlstate", None) == _NOT_ALLOWED:
        return ExitCode.UNAVAILABLE, f"{line}; {FORBIDDEN}"
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return ExitCode.FAILED, f"cannot write: {error.strerror}"
    if isinstance(error, UnicodeEncodeError):
        # Python reads other bytes as half surrogate pairs, which no service takes.
        return ExitCode.USAGE, "an argument or a variable is not UTF-8"
    if type(error).__module__.partition(".")[0] == "botocore":
        # Raised before the first call, so the AWS settings are wrong: no region, or a bad profile.
        return ExitCode.USAGE, f"AWS settings: {line}"
    return ExitCode.FAILED, f"internal error: {type(error).__name__}: {line} (TURNSTILE_DEBUG=1 shows where)"
