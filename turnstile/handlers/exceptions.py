"""What a handler raises to decide what happens to its turn. Any other exception is an error of the handler."""

from turnstile.turn.limits import check_wait


class Retry(Exception):  # noqa: N818 - reads as an instruction: `raise Retry(after=5)`
    """Retries this turn after `after` seconds. Costs an attempt.

    Without `after`: after a random wait, whose upper limit doubles with each failure (`TURNSTILE_RETRY_BASE_SECONDS`,
    `TURNSTILE_RETRY_CAP_SECONDS`).

    `limit` names a declared limit, and needs `after`: until then no other turn with this turn's key of that limit begins either,
    on any worker.
    """

    def __init__(self, message: str = "", *, after: float | None = None, limit: str | None = None) -> None:
        super().__init__(message)
        if limit is not None and after is None:
            raise ValueError("a limit is paused for a time: give after, too")
        self.limit = limit
        # Checked here, where the handler's author sees the error, and not when the turn is settled.
        self.after = None if after is None else check_wait(after)


class Snooze(Exception):  # noqa: N818
    """Runs this turn again in `after` seconds at no cost in attempts: for a provider that returns 429 or 529.

    `limit` names a declared limit: until then no other turn with this turn's key of that limit begins either, on any worker.
    """

    def __init__(self, message: str = "", *, after: float, limit: str | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.after = check_wait(after)


class Reject(Exception):  # noqa: N818
    """Fails this turn without a retry. `dead_letter=False` sends no dead letter: for a turn not worth rerunning."""

    def __init__(self, reason: str, *, dead_letter: bool = True) -> None:
        super().__init__(reason)
        self.dead_letter = dead_letter
