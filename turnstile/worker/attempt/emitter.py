"""The emitter: buffers and numbers the events of a running handler, and appends them to the turn's stream in the background.

A handler never waits here, and no error of Redis reaches it. Emitted events are buffered until the previous append has its
response, and then appended together with the events of the worker's other turns, so that a token does not cost a round trip. The
text so far is kept (bounded like a reply). If the stream has lost events or has grown to its cap, the whole text is sent again,
as a `reset`.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any, assert_never

from turnstile.streaming.event import EventKind, Saying, TurnEvent, numbered, pieces
from turnstile.streaming.stream import Append, Appended
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode
from turnstile.worker.attempt.event_buffer import Gathered, deltas, portion
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS, clean

MAX_EVENT_BYTES = 65_536
"""The largest JSON event, in bytes of JSON."""

PACE_SECONDS = 0.05
"""The pause between two appends of one turn. People do not read faster, and the tokens of a slow model share round trips, too."""

OPENING_SECONDS = 0.02
"""How long the event that an attempt has begun waits for further events. For a quick handler it is appended together with the
end: one append instead of two."""

RETRY_SECONDS = 0.5
PARTING_SECONDS = 5.0
"""How long the append of an attempt's last events is retried. After that, readers find the end in the table."""


class _Said:
    """The return value of `emit`, which is already done; awaiting it costs nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


SAID: Awaitable[None] = _Said()


class Emitter:
    """Emits the events of one attempt. `emit` and `text` are thread-safe; call the rest on the event loop."""

    def __init__(
        self,
        turn: ClaimedTurn,
        key: str,
        cap: int,
        append: "Callable[[Append], asyncio.Future[Appended]]",
        report: "Callable[[Emitter, bool], None]",
    ) -> None:
        self._turn = turn
        self._key = key
        self._cap = cap
        self._append = append
        self._report = report
        """Called with True when there is something to append, and with False when all is appended."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._text: list[str] = []
        self._characters = 0
        self._gathered = Gathered()
        self._said: list[TurnEvent] = []
        """Numbered events that may not be in the stream yet. Appended in portions; a portion is retried unchanged until Redis
        responds."""
        self._asked = 0
        """How many of them were in the last append."""
        self._next_n = 1
        self._since_anew = 0
        self._anew = False
        self._speaking = False
        self._pause: asyncio.TimerHandle | None = None
        """The timer of the pause between two appends."""
        self._silent = False
        """Whether no further event is accepted: the last one has come, or another claim has the turn."""
        self._overflown = False
        self._patience_ends = 0.0
        self._gathered.add(Saying.of(EventKind.STATUS, {"status": TurnStatus.RUNNING, "attempt": turn.attempt}))
        self._opening = self._loop.call_later(OPENING_SECONDS, self._open)

    @property
    def text(self) -> str:
        """All the text of this attempt."""
        with self._lock:
            return "".join(self._text)

    def emit(self, event: Any) -> Awaitable[None]:
        """Emits a piece of text, or another JSON value as a separate event. Raises ValueError for any other value."""
        cleaned = clean(event, what="the event").value
        if isinstance(cleaned, str):
            self._say_text(cleaned)
            return SAID
        data = encode(cleaned)
        if (size := len(data.encode())) > MAX_EVENT_BYTES:
            raise ValueError(f"an event has {size} bytes as JSON, more than {MAX_EVENT_BYTES}")
        self._say(Saying(EventKind.CUSTOM, data))
        return SAID

    def handler_ended(self) -> None:
        """If the event that the attempt has begun is not appended yet, it waits for the attempt's end."""
        self._opening.cancel()

    def settled(self, status: TurnStatus, settlement: Settlement) -> None:
        """Emits the attempt's end, which is committed; later events are discarded."""
        match status:
            case TurnStatus.SUCCEEDED:
                # A reader sends a text that was not emitted from the table.
                self._part(EventKind.END, {"status": status, "said": settlement.reply == self.text})
            case TurnStatus.CANCELED:
                self._part(EventKind.END, {"status": status})
            case TurnStatus.FAILED:
                self._part(EventKind.ERROR, {"status": status})
            case TurnStatus.PENDING:
                about = {"outcome": settlement.outcome, "after_seconds": round(settlement.after_seconds, 3)}
                self._part(EventKind.STATUS, {"status": status, "attempt": self._turn.attempt, **about})
            case TurnStatus.RUNNING:
                raise AssertionError("a settle ends the claim")
            case _:
                assert_never(status)

    def fall_silent(self) -> None:
        """Discards all events, also future ones: another claim has the turn and its stream."""
        with self._lock:
            self._silent = True
            self._gathered.put([])
            # A new list: the old one may be part of an append that is still waiting.
            self._said = []
        self._hurry()

    # --- gather

    def _open(self) -> None:
        with self._lock:
            if self._gathered and not self._silent:
                self._wake()

    def _part(self, kind: EventKind, data: dict[str, Any]) -> None:
        self._patience_ends = self._loop.time() + PARTING_SECONDS
        self._say(Saying.of(kind, data), last=True)
        self._hurry()

    def _hurry(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._speak()

    def _say_text(self, text: str) -> None:
        with self._lock:
            if self._silent or self._overflown or not text:
                return
            self._overflown = self._characters + len(text) > MAX_REPLY_CHARACTERS
            if self._overflown:
                # Stop here: a text with a gap in it would be useless.
                log.warning("emit.too_much", **self._turn.ids, characters=self._characters + len(text))
                return
            self._text.append(text)
            self._characters += len(text)
            if not self._anew:
                self._gathered.add_text(text)
            self._wake()

    def _say(self, saying: Saying, *, last: bool = False) -> None:
        with self._lock:
            if self._silent:
                return
            self._silent = last
            self._gathered.add(saying)
            if self._gathered.is_too_much:
                # The text and the end are kept; the handler's custom events are dropped.
                self._begin_anew([one for one in self._gathered.sayings if one.kind is not EventKind.CUSTOM])
            self._wake()

    def _begin_anew(self, others: list[Saying]) -> None:
        self._anew = True
        self._gathered.put(others)

    def _wake(self) -> None:
        if self._speaking:
            return
        self._speaking = True
        if threading.get_ident() == self._loop_thread:
            # Not call_soon_threadsafe, which would write to a socket to wake the loop, twice in each turn.
            self._loop.call_soon(self._speak)
            self._report(self, True)
            return
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            # The loop is closed: a handler's thread that was left behind has outlived it.
            self._silent = True

    # --- append: by callbacks, because a task would cost as much as the rest of an append

    def _begin(self) -> None:
        self._report(self, True)
        self._speak()

    def _speak(self) -> None:
        self._pause = None
        if events := self._take():
            self._append(Append(self._key, events)).add_done_callback(self._hear)
        else:
            self._report(self, False)

    def _hear(self, appended: "asyncio.Future[Appended]") -> None:
        if appended.cancelled() or (error := appended.exception()) is not None:
            # The worker is stopping, or this is a bug of ours.
            # Only the class: the error of an encoder quotes the event.
            log.error(
                "events.failed", **self._turn.ids, error_class=None if appended.cancelled() else type(error).__name__
            )
            self.fall_silent()
            self._speak()
            return
        answer = appended.result()
        self._note(answer)
        if answer is Appended.AWAY and self._silent and self._loop.time() > self._patience_ends:
            self.fall_silent()
            self._speak()
        elif answer is Appended.AWAY or not self._silent:
            seconds = RETRY_SECONDS if answer is Appended.AWAY else PACE_SECONDS
            self._pause = self._loop.call_later(seconds, self._speak)
        else:
            self._speak()

    def _take(self) -> list[TurnEvent]:
        with self._lock:
            if not self._said and (self._gathered or self._anew):
                if self._since_anew + len(self._gathered) > self._cap:
                    self._begin_anew(self._gathered.sayings)
                # The first event says that the attempt has begun, so that its text is empty: a reset must come after it.
                gathered = self._gathered.take()
                opening = gathered[:1] if self._next_n == 1 else []
                sayings = [*opening, *(self._whole() if self._anew else []), *gathered[len(opening) :]]
                self._since_anew = len(sayings) + (0 if self._anew else self._since_anew)
                self._said = numbered(self._turn.fence, self._next_n, sayings)
                self._next_n += len(sayings)
                self._anew = False
            self._speaking = bool(self._said)
            now = portion(self._said)
            self._asked = len(now)
            return now

    def _whole(self) -> list[Saying]:
        first, *rest = pieces("".join(self._text))
        return [Saying(EventKind.RESET, encode({"text": first, "attempt": self._turn.attempt})), *deltas(rest)]

    def _note(self, answer: Appended) -> None:
        match answer:
            case Appended.APPENDED:
                with self._lock:
                    self._said = self._said[self._asked :]
            case Appended.LOST:
                log.info("events.lost", **self._turn.ids)
                with self._lock:
                    others = [one.saying for one in self._said if one.saying.kind not in _TEXTS]
                    self._begin_anew([*others, *self._gathered.sayings])
                    self._said = []
            case Appended.SUPERSEDED:
                self.fall_silent()
            case Appended.AWAY:
                pass
            case _:
                assert_never(answer)


_TEXTS = (EventKind.DELTA, EventKind.RESET)
