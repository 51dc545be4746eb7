"""The exceptions of the shared vocabulary. Each docstring is the meaning; data travels as attributes."""

import errno
from uuid import UUID


class TurnstileError(Exception):
    """Root of all errors that Turnstile itself raises."""


class SettingsError(TurnstileError):
    """The environment or the queue declarations are refused; the message names every offending setting."""


SET_BY_LOCAL_ENV = 'eval "$(turnstile local env)" sets it for the local stack'
"""What helps where a variable was forgotten."""


class RegionMissingError(SettingsError):
    """Nothing says in which region the queues are."""

    def __init__(self) -> None:
        super().__init__(f"AWS_REGION: is not set, and the AWS configuration names no region; {SET_BY_LOCAL_ENV}")


class CertificateRefusedError(SettingsError):
    """Who answers over TLS can't show that he is whom the setting names. Waiting would not heal that."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: the server that answers there is not trusted: {reason}")
        self.setting = setting


class AddressUnusableError(TurnstileError):
    """No server can listen there: the port is taken, or the host is not this machine's."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        taken = error.errno == errno.EADDRINUSE
        where = f"{host} port {port}" if host else f"port {port}"
        super().__init__(f"port {port} is taken" if taken else f"cannot listen on {where}: {error.strerror}")
        self.host = host
        self.port = port


class UnknownQueueError(TurnstileError):
    """A queue that is not declared, or that SQS does not have."""

    def __init__(self, queue: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(
            f"queue {queue!r} is not declared; declared: {', '.join(known)}"
            if known
            else f"SQS has no queue {queue!r}; `turnstile queues create` makes the declared ones"
        )
        self.queue = queue
        self.known = known


class MalformedMessageError(TurnstileError):
    """A message body that is not ours to understand. Goes to the dead-letter queue as it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DatabaseUnavailableError(TurnstileError):
    """Postgres could not be reached, or broke off; what was asked has either not happened or has been re-read."""


class RowLockedError(DatabaseUnavailableError):
    """Somebody holds a row for longer than one waits for it; nothing was done. The server is well, and so are all other rows."""


class ListTooBroadError(TurnstileError):
    """A list looked at more turns than there is time for. The server is well, and another try would take as long."""

    def __init__(self) -> None:
        super().__init__(
            "too many turns to look through: narrow it with --session, or list with another filter or none"
        )


class SupersededError(TurnstileError):
    """Another worker has the turn by now, or it has ended; nothing was written."""

    def __init__(self) -> None:
        super().__init__("the turn is another claim's by now: nothing was written")


class QueueUnavailableError(TurnstileError):
    """SQS could not be reached or refused for the moment. Nothing is lost: `send_at` on the row has the wake-up."""


class SubmissionRefusedError(TurnstileError):
    """A submit that can't be accepted as it is; `status` table unchanged."""


class UnstorableContentError(SubmissionRefusedError):
    """Postgres refuses the content of a turn, although it has passed every check."""

    def __init__(self) -> None:
        super().__init__("the database refused this content")


class WebhookNotAllowedError(TurnstileError):
    """A completion webhook was asked for, and this deployment allows none, or none there."""


class IdempotencyMismatchError(SubmissionRefusedError):
    """The same Idempotency-Key (or client-chosen turn id) came before with another body."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key!r} was used before with another request")
        self.key = key


class TurnIdTakenError(SubmissionRefusedError):
    """The client-chosen turn id belongs to another submission."""

    def __init__(self, turn_id: UUID) -> None:
        super().__init__(f"turn id {turn_id} is taken")
        self.turn_id = turn_id


class SessionBusyError(SubmissionRefusedError):
    """The session is busy with a turn, and the submit asked to be refused then. Kept, so that a repeat is told the same."""

    def __init__(self, turn_id: UUID, *, replayed: bool = False) -> None:
        super().__init__(f"the session is busy with turn {turn_id}")
        self.turn_id = turn_id
        self.replayed = replayed


class ParentSupersededError(SubmissionRefusedError):
    """A child whose parent's claim is over by now: no such child was started."""

    def __init__(self, parent_id: UUID) -> None:
        super().__init__(f"turn {parent_id} is another claim's by now and may start no children under this one")
        self.parent_id = parent_id
