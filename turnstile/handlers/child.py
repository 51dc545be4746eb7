"""The turns that a handler has started, as the handler sees them."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Child:
    """A child turn that a handler has started with `ctx.submit`."""

    id: UUID
    session_id: str
    key: str
    """Identifies the `ctx.submit` call, so that a later run of the same handler finds the same child."""


class ChildFailedError(Exception):
    """A joined child ended FAILED, with its error, or CANCELED. If the handler does not catch it, the parent fails."""

    def __init__(self, child: Child, status: str, error_class: str | None, error: str | None) -> None:
        super().__init__(f"child {child.key} ({child.id}) {status}" + (f": {error_class}" if error_class else ""))
        self.child = child
        self.status = status
        self.error_class = error_class
        self.error = error
