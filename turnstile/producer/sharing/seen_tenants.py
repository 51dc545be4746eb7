"""Whether several tenants share a process: only then does a tenant get a part of it."""

from collections.abc import Iterable


class SeenTenants:
    """The tenants that have keys in the settings, or have called since the start. True once there are two."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._first: str | None = None
        self._several = False
        for tenant_id in known:
            self.note(tenant_id)

    def note(self, tenant_id: str) -> None:
        self._several = self._several or self._first not in {None, tenant_id}
        self._first = tenant_id

    def __bool__(self) -> bool:
        return self._several
