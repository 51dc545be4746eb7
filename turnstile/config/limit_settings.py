"""The declaration of a limit that holds for all workers together."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turnstile.turn.identifiers import ID_PATTERN

MOST = 1_000_000
"""The largest number of places or tokens, and the largest weight."""

FIELD = r"metadata\.[A-Za-z0-9_-]{1,64}"


class LimitSettings(BaseModel):
    """A limit as declared in `turnstile.toml` or TURNSTILE_LIMITS. Each value of its key has places and tokens of its own."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=rf"^{ID_PATTERN}$")]
    """What commands and handlers call the limit."""
    key: Annotated[str, Field(pattern=rf"^(tenant|queue|{FIELD})$")]
    """What is counted apart: `tenant`, `queue`, or a field of the turn's metadata, such as `metadata.model`. A turn whose
    field is missing, or is a list, an object or null, is not limited."""
    concurrency: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Places: how many turns run at a time."""
    rate: Annotated[float, Field(ge=0.001, le=MOST)] | None = None
    """Tokens a second: how many turns begin, over some seconds."""
    burst: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Most tokens that are saved up. Left out: those of one second, at least one."""
    weight: Annotated[int, Field(ge=1, le=MOST)] | Annotated[str, Field(pattern=rf"^{FIELD}$")] = 1
    """How many places and tokens a turn takes: a number, or a field of its metadata, such as `metadata.pages`. A field that is
    not a number of 1 or more counts as 1. No turn takes more than there are."""

    @model_validator(mode="after")
    def _check_amounts(self) -> Self:
        if self.concurrency is None and self.rate is None:
            raise ValueError("limits nothing: give it a concurrency, a rate, or both")
        if self.burst is not None and self.rate is None:
            raise ValueError("has a burst without a rate: give it a rate, or remove the burst")
        return self

    @property
    def needs_metadata(self) -> bool:
        """Whether only the turn's metadata says what it counts for."""
        return "metadata." in self.key or isinstance(self.weight, str)


def find_repeated(limits: Sequence[LimitSettings]) -> list[str]:
    """A problem, if two limits have one name."""
    return [] if len({limit.name for limit in limits}) == len(limits) else ["each limit may be declared only once"]
