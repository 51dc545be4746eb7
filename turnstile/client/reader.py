"""What the caller of a stream was told, and where to go on. Pure."""

from collections.abc import Iterator

from turnstile.client.events import Begin, Delta, End, Event, Reset, Status, read_event
from turnstile.client.exchange import Heard


class Reader:
    """Of one turn or, if it reads `across` turns, of a session."""

    def __init__(self, after: str | None = None, *, across: bool = False) -> None:
        self.last_id = after
        self.turn_id: str | None = None
        """The turn that the caller was told of last."""
        self.ended = False
        """Nothing follows."""
        self._across = across
        self._turn_ended = False
        # Whoever goes on behind an event has a text already.
        self._has_text = after is not None

    def take(self, heard: Heard) -> Iterator[Event]:
        """What to tell of it. A reader who only appends each Delta and takes each Reset has the text.

        Raises ValueError, LookupError or TypeError for what is no event.
        """
        event = read_event(heard.kind, heard.data, heard.id or None)
        self.last_id = heard.id or self.last_id
        match event:
            case None:
                return
            case Begin(turn_id):
                # Each connection begins with one.
                if turn_id == self.turn_id and not self._turn_ended:
                    return
                self._has_text = self._has_text and self.turn_id is None
                self.turn_id, self._turn_ended = turn_id, False
            case Delta() | Reset():
                self._has_text = True
            case End():
                self._turn_ended = True
                self.ended = not self._across
            case _:
                pass
        yield event
        if isinstance(event, Status) and event.status == "RUNNING" and self._has_text:
            self._has_text = False
            yield Reset("", event.id)
