"""Names moments in words, as seen at the time of a look. Pure."""

from datetime import datetime

from turnstile.ops.terminal.output import short_duration, short_time


class Clock:
    """Names moments as seen at the time of the look."""

    def __init__(self, now: datetime | None) -> None:
        self._now = now

    def since(self, moment: datetime | None) -> str:
        return self._name("since", moment)

    def until(self, moment: datetime | None) -> str:
        return self._name("until", moment)

    def at(self, moment: datetime | None) -> str:
        return self._name("at", moment)

    def has_come(self, moment: datetime | None) -> bool:
        return moment is not None and self._now is not None and moment <= self._now

    def _name(self, word: str, moment: datetime | None) -> str:
        if moment is None:
            return f"{word} an unknown time"
        if self._now is None:
            return f"{word} {short_time(moment)}"
        left = (moment - self._now).total_seconds()
        distance = f"in {short_duration(left)}" if left >= 0 else f"{short_duration(-left)} ago"
        return f"{word} {short_time(moment)} ({distance})"
