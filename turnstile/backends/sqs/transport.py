"""How a call of SQS is carried: what `message_queue` asks of a transport, and the two ways in which a call may fail.

Operations and parameters are those of SQS's own API. A transport knows nothing of turns.
"""

from typing import Any, Protocol

from turnstile.errors import QueueUnavailableError

Parameters = dict[str, Any]
Answer = dict[str, Any]
"""What SQS has nothing to say in is absent, or None."""

POLL = "ReceiveMessage"
"""Tried once, and it may take as long as a long poll does; every other operation is a command, and quickly tried again."""
POLL_SLACK_SECONDS = 10.0
"""What a poll may take beyond the wait that it asks for."""
BESIDE = 2
"""Polls that a consumer may have beside its long ones (ADR 0054)."""
CONNECT_SECONDS = 3.0
COMMAND_SECONDS = 5.0
EXTEND_SECONDS = 2.0
"""Of a beat, which comes again soon: an SQS that hangs is better asked anew."""


class CallRefusedError(QueueUnavailableError):
    """SQS has answered, and the answer is an error; `code` is SQS's own, in the form of the older or of the newer protocol."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class SqsTransport(Protocol):
    """Carries calls. Raises CallRefusedError, or QueueUnavailableError where there was no answer: the call may be done, then."""

    async def call(self, operation: str, parameters: Parameters) -> Answer:
        """One call, from the event loop. Of a caller that is cancelled nobody knows whether the call is done."""
        ...

    def call_blocking(self, operation: str, parameters: Parameters) -> Answer:
        """One call, tried once, from a thread of the heartbeat's; takes EXTEND_SECONDS at most once connected and signed."""
        ...

    def forget_connections(self) -> None:
        """Uses none again that nobody uses now."""
        ...

    def close(self) -> None:
        """Lets go of threads and connections; a long poll that is under way is left behind."""
        ...
