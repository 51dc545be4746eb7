"""Which receipt handle of a message counts, and what becomes of one that does not.

The emulator behind the proxy takes a message's last handle only. Others differ, each in another direction: AWS answers
200 to an old handle and does nothing, moto deletes by any handle ever issued, ElasticMQ refuses all but the last. Handles
of deliveries that the proxy made up are translated here too.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from tests.proof.proxy.sqs_calls import Subject
from tests.proof.proxy.toxics import StaleHandles

MOST_GONE = 20_000
"""So many deleted messages are remembered."""


@dataclass(slots=True)
class Receipt:
    """A message that was received at least once."""

    message_id: str
    subject: Subject
    upstream: str | None = None
    """The handle that SQS takes; None when SQS no longer has such a message, though it was delivered again."""
    latest: str = ""
    """The handle that counts for clients."""
    gone: bool = False
    handles: list[str] = field(default_factory=list)


class Verdict(NamedTuple):
    """What to do about a handle. With neither of the last two: answer that it was done, and do nothing."""

    receipt: Receipt | None
    forward: str | None = None
    """Ask SQS, by this handle."""
    refusal: str | None = None
    """The error code with which the handle is refused."""


class Receipts:
    def __init__(self) -> None:
        self.mode: StaleHandles = "aws"
        self._by_id: dict[str, Receipt] = {}
        self._by_handle: dict[str, Receipt] = {}
        self._gone: deque[str] = deque()

    def received(self, message_id: str, handle: str, subject: Subject) -> Receipt:
        receipt = self._by_id.get(message_id)
        if receipt is None:
            receipt = self._by_id[message_id] = Receipt(message_id, subject)
        receipt.upstream, receipt.gone = handle, False
        self._issue(receipt, handle)
        return receipt

    def delivered_again(self, message_id: str, fresh: str | None) -> str | None:
        """The proxy delivers it again, with a handle of its own or the last. None if it does not know the message."""
        receipt = self._by_id.get(message_id)
        if receipt is None:
            return None
        if receipt.gone:
            receipt.upstream, receipt.gone = None, False
        if fresh is not None:
            self._issue(receipt, fresh)
        return receipt.latest

    def find(self, handle: str) -> Receipt | None:
        return self._by_handle.get(handle)

    def deleted(self, receipt: Receipt) -> None:
        receipt.gone = True
        self._gone.append(receipt.message_id)
        if len(self._gone) > MOST_GONE:
            old = self._by_id.get(self._gone.popleft())
            if old is not None and old.gone:
                del self._by_id[old.message_id]
                for handle in old.handles:
                    self._by_handle.pop(handle, None)

    def judge(self, action: str, handle: str) -> Verdict:
        """What to do about a delete or a change of visibility."""
        receipt = self._by_handle.get(handle)
        if receipt is None:
            return Verdict(None, forward=handle)
        if handle == receipt.latest and not receipt.gone:
            if receipt.upstream is None and action == "delete":
                self.deleted(receipt)
            return Verdict(receipt, forward=receipt.upstream)
        match self.mode:
            case "aws":
                refused = action == "visibility" and receipt.gone
                return Verdict(receipt, refusal="InvalidParameterValue" if refused else None)
            case "moto":
                return Verdict(receipt, forward=None if receipt.gone else receipt.upstream)
            case "elasticmq":
                return Verdict(receipt, refusal="ReceiptHandleIsInvalid")
            case other:
                assert_never(other)

    def _issue(self, receipt: Receipt, handle: str) -> None:
        receipt.latest = handle
        receipt.handles.append(handle)
        self._by_handle[handle] = receipt
