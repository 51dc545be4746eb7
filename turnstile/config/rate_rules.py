"""The declaration of a rate limit of the API, and of a cap on open turns."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from turnstile.turn.identifiers import ID_PATTERN

MAX_REQUESTS = 1_000_000
MAX_WINDOW_SECONDS = 86_400
MAX_SESSION_SECONDS = 3600
"""A client may name any number of sessions, and Redis keeps the count of each for up to two windows."""
MAX_OPEN_TURNS = 100_000

OpenTurns = Annotated[int, Field(ge=1, le=MAX_OPEN_TURNS)] | None
"""A cap on open turns. A count reads as many entries of an index, once a second."""


class RateRule(BaseModel):
    """A rate limit as declared in `turnstile.toml` or TURNSTILE_RATES."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=rf"^{ID_PATTERN}$")]
    """What headers, refusals, log lines and metrics call the rule."""
    per: Literal["tenant", "key", "session"]
    """Whose requests are counted together: those of a tenant, of one of its keys, or of one of its sessions. Only requests whose
    path names a session count for a session: submits, its lists, its cancel."""
    calls: Literal["all", "submits"] = "all"
    """Which requests count: all under `/v1`, or only submits."""
    limit: Annotated[int, Field(ge=1, le=MAX_REQUESTS)]
    """Most requests in a window."""
    seconds: Annotated[int, Field(ge=1, le=MAX_WINDOW_SECONDS)] = 60
    """Length of the window; of a rule per session an hour at most."""
    window: Literal["sliding", "fixed"] = "sliding"
    """`sliding`: about `limit` requests in any `seconds`. `fixed`: a window begins with the first request, and the next may begin
    with all of its requests at once."""


def find_rate_conflicts(rules: Sequence[RateRule]) -> list[str]:
    """Conflicts between the rules: one sentence for each."""
    conflicts = [
        f"rate limit {rule.name!r}: seconds ({rule.seconds}) must be at most {MAX_SESSION_SECONDS} per session"
        for rule in rules
        if rule.per == "session" and rule.seconds > MAX_SESSION_SECONDS
    ]
    if len({rule.name for rule in rules}) != len(rules):
        conflicts.append("each rate limit needs a name of its own")
    return conflicts
