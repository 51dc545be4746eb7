"""What a handler knows of the turns that it has started."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Child:
    """A turn that this one has started."""

    id: UUID
    session_id: str
    key: str
    """The call's own: what a later run of the same handler finds it by."""


class ChildFailedError(Exception):
    """A child that was joined did not succeed: FAILED, with its error, or CANCELED. Not caught, it fails its parent."""

    def __init__(self, child: Child, status: str, error_class: str | None, error: str | None) -> None:
        super().__init__(f"child {child.key} ({child.id}) {status}" + (f": {error_class}" if error_class else ""))
        self.child = child
        self.status = status
        self.error_class = error_class
        self.error = error
