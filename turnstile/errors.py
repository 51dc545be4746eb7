"""The exceptions that all packages share. Each docstring gives the meaning; attributes carry the data."""

import errno
from uuid import UUID


class TurnstileError(Exception):
    """Base class of all errors that Turnstile raises."""


class SettingsError(TurnstileError):
    """The environment or the queue declarations are invalid; the message names every offending setting."""


SET_BY_LOCAL_ENV = (
    'for the local stack: eval "$(turnstile local env)", with --home FOLDER unless its data is in ./.local'
)
"""Hint for error messages about a variable or credentials that are not set. The shell does not say where its stack is."""


class RegionMissingError(SettingsError):
    """Neither AWS_REGION nor the AWS configuration names the region of the queues."""

    def __init__(self) -> None:
        super().__init__(f"AWS_REGION: is not set, and the AWS configuration names no region; {SET_BY_LOCAL_ENV}")


class CertificateRefusedError(SettingsError):
    """The TLS certificate of the server does not verify, or is for another host. Waiting does not help."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: the server that answers there is not trusted: {reason}")


class ServerTooOldError(SettingsError):
    """The server at DATABASE_URL is older than what Turnstile works with. Waiting does not help."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"DATABASE_URL: {reason}")


class DataKeyRefusedError(SettingsError):
    """KMS does not open a key of contents: this process may not use it, or KMS does not answer."""

    def __init__(self, key_id: str, reason: str) -> None:
        super().__init__(
            f"TURNSTILE_SEALING_KEYS_FILE: KMS does not open key {key_id}: {reason}; allow this process kms:Decrypt with the"
            f" encryption context turnstile={key_id}"
        )


class AddressUnusableError(TurnstileError):
    """This process can't listen on the address: the port is taken, or the host is not an address of this machine."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        taken = error.errno == errno.EADDRINUSE
        where = f"{host} port {port}" if host else f"port {port}"
        super().__init__(
            f"port {port} is taken by another program: stop it, or choose another port"
            if taken
            else f"cannot listen on {where}: {error.strerror}"
        )


class UnknownQueueError(TurnstileError):
    """The queue is not declared, or SQS does not have it, perhaps for a `reason` that its declaration shows."""

    def __init__(self, queue: str, known: tuple[str, ...] = (), *, reason: str | None = None) -> None:
        why = f": {reason}" if reason else "; `turnstile queues create` makes the declared ones"
        super().__init__(
            f"queue {queue!r} is not declared; declared: {', '.join(known)}"
            if known
            else f"SQS has no queue {queue!r}{why}"
        )
        self.queue = queue


class MalformedMessageError(TurnstileError):
    """The message body is not a wake-up. The message goes to the dead-letter queue unchanged."""


class DatabaseUnavailableError(TurnstileError):
    """Postgres could not be reached, or the connection broke; the work was either not done or has been re-read."""


class RowLockedError(DatabaseUnavailableError):
    """A row stayed locked by another transaction beyond the lock timeout; nothing was done. The server is healthy."""


class ConnectionsBusyError(DatabaseUnavailableError):
    """The process has too much to do: no connection came free in time, and Postgres answered other calls. Nothing was done."""


class DatabaseUnfitError(DatabaseUnavailableError):
    """Postgres responds, but this program can't use it as it is; the message says what to do. Nothing was done."""


class TablesUnfitError(DatabaseUnfitError):
    """The tables are missing, of a version that this program can't use, or not open to its role. Nothing was done."""


MISFITS = frozenset({"42P01", "42703", "42883"})
"""SQLSTATEs of undefined_table, undefined_column, undefined_function: the program is newer or older than the tables."""

MISFIT = "the tables are missing or of another version: run `turnstile migrate`"


FORBIDDEN = "DATABASE_URL's role lacks rights on the tables: their owner runs `turnstile grant` (docs/running.md#roles)"
"""What to do after `insufficient_privilege`."""


class IssuerUnavailableError(TurnstileError):
    """The keys of the issuer of JWTs could not be read: nobody can say whether a token is valid."""


class ListTooBroadError(TurnstileError):
    """A list query ran into its time limit. The server is healthy, and a retry would take as long."""

    def __init__(self) -> None:
        super().__init__(
            "too many turns to look through: narrow it with --session, or with --tenant and --since; or use fewer filters"
        )


class ContentsUnreadableError(TurnstileError):
    """A content is sealed, and this process can't open it. No subclass has any of the content in its text."""


class KeyMissingError(ContentsUnreadableError):
    """The content is sealed under a key that this process does not have. With the key it opens: nothing is lost."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"sealed under key {key_id}, which this process does not have: add the key to the file that "
            "TURNSTILE_SEALING_KEYS_FILE names"
        )
        self.key_id = key_id


class BrokenSealError(ContentsUnreadableError):
    """The content was changed, cut or moved from another place since it was sealed, or the key of that id is another one."""

    def __init__(self, column: str) -> None:
        super().__init__(
            f"the seal of the {column.partition(':')[0]} is broken: it was changed, or is not of this turn"
        )


class SupersededError(TurnstileError):
    """Another worker has claimed the turn, or the turn has ended; nothing was written."""

    def __init__(self) -> None:
        super().__init__("another claim has taken the turn: nothing was written")


class QueueUnavailableError(TurnstileError):
    """SQS could not be reached, or refused the call. No wake-up is lost: `send_at` on the row makes the relay send it again."""


class CredentialsMissingError(QueueUnavailableError):
    """No provider of AWS credentials has any for this process."""

    def __init__(self) -> None:
        super().__init__(
            "AWS credentials: none are configured: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the process a role; "
            f"{SET_BY_LOCAL_ENV}"
        )


class MessageStaysError(TurnstileError):
    """A worker can't process the message now, and has changed nothing: SQS must deliver it again some seconds later."""


class SubmissionRefusedError(TurnstileError):
    """The submit can't be accepted as it is; the status table is unchanged."""


class UnstorableContentError(SubmissionRefusedError):
    """Postgres refused the content of a turn, although the content passed every check."""

    def __init__(self) -> None:
        super().__init__("Postgres cannot store this content: change the input or the metadata")


class WebhookNotAllowedError(TurnstileError):
    """The submit asks for a completion webhook, and this deployment allows no webhooks, or not to that host."""


class IdempotencyMismatchError(SubmissionRefusedError):
    """The same Idempotency-Key (or client-chosen turn id) was used before with another body."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key!r} was used before with another request: use a new key, or a new turn id, for a new request"
        )


class FirstRequestSealedError(SubmissionRefusedError):
    """A request with this key was recorded before, and without its key this process can't tell whether it was the same."""

    def __init__(self, error: KeyMissingError) -> None:
        super().__init__(f"the first request with this Idempotency-Key can't be compared: its fingerprint is {error}")


class TurnIdTakenError(SubmissionRefusedError):
    """The client-chosen turn id belongs to another submission."""

    def __init__(self, turn_id: UUID) -> None:
        super().__init__(f"turn id {turn_id} is taken: leave it out, or choose another")


class ChildIdTakenError(SubmissionRefusedError):
    """The id that a child of a turn would get belongs to a turn that this one has not started."""

    def __init__(self, parent_id: UUID, child_id: UUID) -> None:
        super().__init__(
            f"the child was not started: its id {child_id} belongs to a turn that this call of turn {parent_id} did not start. "
            f"Look at it with turnstile status {child_id}; a redrive of the parent gives the child another id"
        )


class SessionBusyError(SubmissionRefusedError):
    """The session is busy, and the submit asked for `reject`. The refusal is stored: a repeated submit gets the same one."""

    def __init__(self, turn_id: UUID, *, replayed: bool = False) -> None:
        super().__init__(f"the session is busy with turn {turn_id}: wait for it to end, or choose another on_busy")
        self.turn_id = turn_id
        self.replayed = replayed


class ParentSupersededError(SubmissionRefusedError):
    """The claim of the child's parent is over, or the child that it replaces is no longer lost; the child was not started."""

    def __init__(self, parent_id: UUID) -> None:
        super().__init__(f"another claim has taken turn {parent_id}: the child was not started")
