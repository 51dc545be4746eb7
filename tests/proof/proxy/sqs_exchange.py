"""One SQS call on its way: what is forwarded, what is answered, what is noted of it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.proof.checker.evidence import WireCall
from tests.proof.proxy.gate import LOOPBACK, Gate
from tests.proof.proxy.http_messages import HttpMessage, answer, refusal
from tests.proof.proxy.receipts import Receipt, Receipts
from tests.proof.proxy.redelivery import Entry, Redelivery
from tests.proof.proxy.sqs_calls import Call, Subject, read_body, read_reason

_NOBODY = Subject(None, None, None)


@dataclass(slots=True)
class SqsState:
    """What all gates in front of SQS know together."""

    receipts: Receipts = field(default_factory=Receipts)
    redelivery: Redelivery = field(init=False)

    def __post_init__(self) -> None:
        self.redelivery = Redelivery(self.receipts)


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next. Neither forwarded nor answered: the connection is cut."""

    forward: HttpMessage | None = None
    reply: HttpMessage | None = None
    calls: Sequence[WireCall] = ()
    """To be noted, with whether the reply got through."""


@dataclass(slots=True)
class _Entry:
    """An entry of a batch, or a call that is none."""

    given: dict[str, Any]
    receipt: Receipt | None = None
    forwarded: dict[str, Any] | None = None
    """As SQS gets it; None if it never does."""
    effective: bool = False
    result: dict[str, Any] | None = None
    """What SQS, or the proxy, answered to it when it succeeded."""
    error: str | None = None

    @property
    def id(self) -> str:
        return str(self.given.get("Id", ""))


class Exchange:
    """`begin`, and if that forwards, `finish` with SQS's answer."""

    def __init__(self, state: SqsState, gate: Gate, call: Call) -> None:
        self._state = state
        self._gate = gate
        self._call = call
        self._entries = [_Entry(given) for given in call.entries]
        self._answer_lost = False

    def begin(self) -> Step:
        if self._strike("request_lost"):
            return Step(calls=self._note())
        if self._strike("error"):
            return Step(reply=refusal(500, "InternalFailure", "The request processing has failed."), calls=self._note())
        if self._strike("throttle"):
            return Step(reply=refusal(400, "RequestThrottled", "Rate exceeded"), calls=self._note())
        match self._call.action:
            case "receive":
                return self._begin_receive()
            case "other":
                return Step(forward=self._call.request)
            case _:
                return self._begin_entries()

    def finish(self, response: HttpMessage) -> Step:
        match self._call.action:
            case "receive":
                return self._finish_receive(response)
            case "other":
                return Step(reply=self._with_our_address(response))
            case _:
                return self._finish_entries(response)

    def abandon(self) -> Step:
        """SQS will not answer: it is away, and has forgotten what it did, for the embedded one keeps all in memory."""
        return Step(calls=self._note())

    def _strike(self, toxic: str) -> Any:
        return self._gate.strike(toxic, self._call.action)

    # --- send, delete, visibility

    def _begin_entries(self) -> Step:
        self._answer_lost = self._strike("answer_lost") is not None
        for entry in self._entries:
            if self._call.action == "send":
                entry.forwarded = entry.given
            else:
                self._judge(entry)
        if self._call.batch:
            self._fail_some()
        forwarded = [entry.forwarded for entry in self._entries if entry.forwarded is not None]
        if not forwarded and self._entries:
            return self._reply_entries()
        if all(entry.forwarded is entry.given for entry in self._entries):
            return Step(forward=self._call.request)
        return Step(forward=self._call.with_entries(forwarded))

    def _judge(self, entry: _Entry) -> None:
        handle = str(entry.given.get("ReceiptHandle", ""))
        entry.receipt, upstream, entry.error = self._state.receipts.judge(self._call.action, handle)
        if upstream is not None:
            entry.forwarded = entry.given if upstream == handle else entry.given | {"ReceiptHandle": upstream}
        elif entry.error is None:
            entry.result = {}

    def _fail_some(self) -> None:
        fault = self._strike("partial_failure")
        if fault is None:
            return
        doomed = [entry for entry in self._entries if self._gate.chance.random() < fault.share]
        for entry in doomed or [self._gate.chance.choice(self._entries)]:
            entry.forwarded, entry.result, entry.error = None, None, "InternalError"

    def _finish_entries(self, response: HttpMessage) -> Step:
        found = response.json()
        if self._call.batch and response.status != 200:
            return self._end(response)
        if self._call.batch:
            self._read_batch(found)
        else:
            self._read_single(response, found)
        for entry in self._entries:
            if entry.effective and self._call.action == "delete" and entry.receipt is not None:
                self._state.receipts.deleted(entry.receipt)
        if not self._call.batch and response.status != 200 and self._entries[0].error is not None:
            return self._end(response)
        return self._reply_entries()

    def _read_batch(self, found: dict[str, Any]) -> None:
        by_id = {entry.id: entry for entry in self._entries}
        for result in found.get("Successful") or []:
            entry = by_id[result["Id"]]
            entry.result, entry.effective = result, True
        for refused in found.get("Failed") or []:
            self._refused(by_id[refused["Id"]], refused["Code"])

    def _read_single(self, response: HttpMessage, found: dict[str, Any]) -> None:
        entry = self._entries[0]
        if response.status == 200:
            entry.result, entry.effective = found, True
        else:
            self._refused(entry, str(found.get("__type", "")).rpartition("#")[2])

    def _refused(self, entry: _Entry, code: str) -> None:
        # The emulator has the manners of ElasticMQ.
        if code == "ReceiptHandleIsInvalid" and self._state.receipts.mode != "elasticmq":
            entry.result = {}
        else:
            entry.error = code

    def _reply_entries(self) -> Step:
        if not self._call.batch:
            (entry,) = self._entries
            if entry.error is not None:
                return self._end(refusal(400, entry.error, "The input receipt handle is invalid."))
            return self._end(answer(200, entry.result or {}))
        successful = [(entry.result or {}) | {"Id": entry.id} for entry in self._entries if entry.error is None]
        failed = [
            {"Id": entry.id, "Code": entry.error, "Message": entry.error, "SenderFault": entry.error != "InternalError"}
            for entry in self._entries
            if entry.error is not None
        ]
        return self._end(answer(200, {"Successful": successful, "Failed": failed}))

    def _end(self, reply: HttpMessage) -> Step:
        return Step(reply=None if self._answer_lost else reply, calls=self._note())

    def _note(self) -> list[WireCall]:
        return [self._note_one(entry) for entry in self._entries]

    def _note_one(self, entry: _Entry) -> WireCall:
        if self._call.action == "send":
            return self._record(
                (entry.result or {}).get("MessageId"),
                read_body(str(entry.given.get("MessageBody", ""))),
                effective=entry.effective,
                reason=read_reason(entry.given) if self._call.dead else None,
            )
        receipt = entry.receipt or self._state.receipts.find(str(entry.given.get("ReceiptHandle", "")))
        if receipt is None:
            return self._record(None, _NOBODY, effective=entry.effective)
        return self._record(receipt.message_id, receipt.subject, effective=entry.effective)

    # --- receive

    def _begin_receive(self) -> Step:
        most = int(self._call.data.get("MaxNumberOfMessages", 1))
        if not self._call.fifo:
            redelivery = self._state.redelivery
            held = redelivery.take_held(self._call.queue, most, time.monotonic())
            if held:
                return self._deliver(held)
            if redelivery.can_repeat(self._call.queue) and self._strike("duplicate"):
                return self._deliver(redelivery.repeat(self._call.queue, most, self._gate.chance))
        return Step(forward=self._call.request)

    def _finish_receive(self, response: HttpMessage) -> Step:
        found = response.json()
        entries: list[Entry] = found.get("Messages") or []
        if response.status != 200 or not entries:
            return Step(reply=response)
        for entry in entries:
            self._state.receipts.received(entry["MessageId"], entry["ReceiptHandle"], read_body(entry["Body"]))
        fault = self._strike("reorder") if not self._call.fifo else None
        if fault is None:
            return self._deliver(entries, response)
        until = time.monotonic() + fault.hold
        return self._deliver(
            self._state.redelivery.hold(self._call.queue, entries, fault.share, until, self._gate.chance)
        )

    def _deliver(self, entries: list[Entry], response: HttpMessage | None = None) -> Step:
        if not entries:
            return Step(reply=answer(200, {}))
        if not self._call.fifo:
            self._state.redelivery.remember(self._call.queue, entries)
        calls = [self._record(one["MessageId"], read_body(one["Body"]), effective=True) for one in entries]
        if self._strike("answer_lost"):
            return Step(calls=calls)
        return Step(reply=response or answer(200, {"Messages": entries}), calls=calls)

    # ---

    def _record(
        self, message_id: str | None, subject: Subject, *, effective: bool, reason: str | None = None
    ) -> WireCall:
        return WireCall(
            at=time.time(),
            action=self._call.action,
            queue=self._call.queue,
            dead=self._call.dead,
            message_id=message_id,
            turn_id=subject.turn_id,
            session=subject.session,
            effective=effective,
            answered=False,
            body=subject.body,
            reason=reason,
        )

    def _with_our_address(self, response: HttpMessage) -> HttpMessage:
        host, port = self._gate.upstream
        theirs, ours = f"http://{host}:{port}/".encode(), f"http://{LOOPBACK}:{self._gate.port}/".encode()
        if theirs not in response.body:
            return response
        return response.with_body(response.body.replace(theirs, ours))
