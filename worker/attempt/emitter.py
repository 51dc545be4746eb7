"""What a handler says while it is still at it: gathered, numbered, and appended to the turn's stream behind its back.

Nothing here makes a handler wait, and nothing that happens to Redis reaches it. What is emitted is gathered, and goes out
when the append before has been answered, together with what the other turns of this worker have gathered: no round trip
per token. The text so far is kept (bounded like a reply), so when the stream has lost something, or has grown to its cap,
the whole text is said anew, as a `reset`.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any, assert_never

import structlog

from turnstile.streaming.event import EventKind, Saying, TurnEvent, numbered, pieces
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode
from turnstile.worker.attempt.event_buffer import Gathered, deltas, portion
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS, clean

MAX_EVENT_BYTES = 65_536
"""Of one JSON event, as JSON (R5)."""

PACE_SECONDS = 0.05
"""Between two appends of one turn: nobody reads faster, and a slow model's tokens share round trips, too."""

OPENING_SECONDS = 0.02
"""How long the news that an attempt has begun waits for something to be said. That of a handler that takes no time goes
out together with its end: one append instead of two."""

RETRY_SECONDS = 0.5
PARTING_SECONDS = 5.0
"""How long the last words of an attempt are tried. Then the reader closes from the table."""

log = structlog.get_logger("turnstile.events")


class _Said:
    """What `emit` returns. It was done when it was called; awaiting it costs nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


SAID: Awaitable[None] = _Said()


class Emitter:
    """The voice of one attempt. `emit` and `text` are for any thread, the rest for the event loop."""

    def __init__(
        self,
        turn: ClaimedTurn,
        key: str,
        cap: int,
        append: "Callable[[Append], asyncio.Future[Appended]]",
        tell: "Callable[[Emitter, bool], None]",
    ) -> None:
        self._turn = turn
        self._key = key
        self._cap = cap
        self._append = append
        self._tell = tell
        """Told when it begins to speak, and when all is said."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._text: list[str] = []
        self._characters = 0
        self._gathered = Gathered()
        self._said: list[TurnEvent] = []
        """Numbered, but not known to be in the stream: goes out in portions, each asked again unchanged until it is answered."""
        self._asked = 0
        """How many of them the last append had."""
        self._unsure = False
        """Whether that portion may be in the stream already."""
        self._next_n = 1
        self._since_anew = 0
        self._anew = False
        self._speaking = False
        self._pause: asyncio.TimerHandle | None = None
        """Between two appends."""
        self._silent = False
        self._overflown = False
        self._parting = False
        self._patience_ends = 0.0
        self._gathered.add(Saying.of(EventKind.STATUS, {"status": TurnStatus.RUNNING, "attempt": turn.attempt}), 0)
        self._opening = self._loop.call_later(OPENING_SECONDS, self._open)

    @property
    def text(self) -> str:
        """All the text of this attempt."""
        with self._lock:
            return "".join(self._text)

    def emit(self, event: Any) -> Awaitable[None]:
        """Says a piece of text, or any other JSON value as an event of its own. Raises ValueError for what is neither."""
        cleaned = clean(event).value
        if isinstance(cleaned, str):
            self._say_text(cleaned)
            return SAID
        data = encode(cleaned)
        if (size := len(data.encode())) > MAX_EVENT_BYTES:
            raise ValueError(f"an event has {size} bytes as JSON, more than {MAX_EVENT_BYTES}")
        self._say(Saying(EventKind.CUSTOM, data), size)
        return SAID

    def handler_ended(self) -> None:
        """If it has not been said yet that the attempt has begun, it is said together with what becomes of it."""
        self._opening.cancel()

    def settled(self, status: TurnStatus, settlement: Settlement) -> None:
        """The attempt's end is committed; what it says from here on is not heard."""
        match status:
            case TurnStatus.SUCCEEDED:
                # A text that was not said the reader sends itself, from the table. There are numbers whose == gives no bool.
                said = isinstance(settlement.reply, str) and settlement.reply == self.text
                self._part(EventKind.END, {"status": status, "said": said})
            case TurnStatus.CANCELED:
                self._part(EventKind.END, {"status": status})
            case TurnStatus.FAILED:
                self._part(EventKind.ERROR, {"status": status})
            case TurnStatus.PENDING:
                told = {"outcome": settlement.outcome, "after_seconds": round(settlement.after_seconds, 3)}
                self._part(EventKind.STATUS, {"status": status, "attempt": self._turn.attempt, **told})
            case TurnStatus.RUNNING:
                raise AssertionError("a settle ends the claim")
            case _:
                assert_never(status)

    def fall_silent(self) -> None:
        """Superseded: the turn is another claim's, and so is its stream."""
        with self._lock:
            self._silent = True
            self._gathered.put([])
            # A new one: what stands in the old one may wait to be appended, together with what others say.
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
        self._parting = True
        if self._pause is not None:
            self._pause.cancel()
            self._speak()

    def _say_text(self, text: str) -> None:
        with self._lock:
            if self._silent or self._overflown or not text:
                return
            self._overflown = self._characters + len(text) > MAX_REPLY_CHARACTERS
            if self._overflown:
                # With a hole in it the text would be worth nothing.
                log.warning("emit.too_much", turn_id=str(self._turn.id), characters=self._characters + len(text))
                return
            self._text.append(text)
            self._characters += len(text)
            if not self._anew:
                self._gathered.add_text(text)
            self._wake()

    def _say(self, saying: Saying, size: int = 0, *, last: bool = False) -> None:
        with self._lock:
            if self._silent:
                return
            self._silent = last
            self._gathered.add(saying, size)
            if self._gathered.is_too_much:
                # The text is kept, the end is kept; events of the handler's own are not.
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
            # Waking a loop that is awake costs a write to a socket, twice in each turn.
            self._loop.call_soon(self._speak)
            self._tell(self, True)
            return
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            # A thread that was left behind outlives the loop.
            self._silent = True

    # --- speak: not a task, which would cost as much as all the rest of an append does

    def _begin(self) -> None:
        self._tell(self, True)
        self._speak()

    def _speak(self) -> None:
        self._pause = None
        if events := self._take():
            self._append(Append(self._key, events)).add_done_callback(self._hear)
        else:
            self._tell(self, False)

    def _hear(self, appended: "asyncio.Future[Appended]") -> None:
        if appended.cancelled() or (error := appended.exception()) is not None:
            # The worker's end, or a bug of ours.
            log.error("events.failed", turn_id=str(self._turn.id), error=None if appended.cancelled() else repr(error))
            self.fall_silent()
            self._speak()
            return
        answer = appended.result()
        self._note(answer)
        if answer is Appended.AWAY and self._parting and self._loop.time() > self._patience_ends:
            self.fall_silent()
            self._speak()
        elif answer is Appended.AWAY or not self._parting:
            seconds = RETRY_SECONDS if answer is Appended.AWAY else PACE_SECONDS
            self._pause = self._loop.call_later(seconds, self._speak)
        else:
            self._speak()

    def _take(self) -> list[TurnEvent]:
        with self._lock:
            if not self._said and (self._gathered or self._anew):
                if self._since_anew + len(self._gathered) > self._cap:
                    self._begin_anew(self._gathered.sayings)
                # The first of all says that the attempt has begun, and so that the text is empty: the text comes after.
                gathered = self._gathered.take()
                opening = gathered[:1] if self._next_n == 1 else []
                sayings = [*opening, *(self._whole() if self._anew else []), *gathered[len(opening) :]]
                self._since_anew = len(sayings) + (0 if self._anew else self._since_anew)
                self._said = numbered(self._turn.fence, self._next_n, sayings)
                self._next_n += len(sayings)
                self._anew = self._unsure = False
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
                    self._unsure = False
            case Appended.LOST:
                log.info("events.lost", turn_id=str(self._turn.id))
                with self._lock:
                    if self._said and not self._unsure:
                        # Nobody can have seen these numbers.
                        self._next_n = self._said[0].id.n
                    others = [one.saying for one in self._said if one.saying.kind not in _TEXTS]
                    self._begin_anew([*others, *self._gathered.sayings])
                    self._said = []
            case Appended.SUPERSEDED:
                self.fall_silent()
            case Appended.AWAY:
                self._unsure = True
            case _:
                assert_never(answer)


_TEXTS = (EventKind.DELTA, EventKind.RESET)
