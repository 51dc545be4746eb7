"""A process is shared once two tenants have called."""

import pytest

from turnstile.producer.sharing.seen_tenants import SeenTenants


@pytest.mark.parametrize(
    ("known", "called", "shared"),
    [
        ([], [], False),
        ([], ["a", "a"], False),
        ([], ["a", "b"], True),
        ([], ["a", "b", "b"], True),
        (["a", "a"], ["a"], False),
        (["a"], ["b"], True),
        (["a", "b"], [], True),
    ],
)
def test_a_process_is_shared_by_two_tenants(known: list[str], called: list[str], shared: bool) -> None:
    tenants = SeenTenants(known)
    for tenant_id in called:
        tenants.note(tenant_id)

    assert bool(tenants) is shared
