"""Each role includes those before it."""

import pytest

from turnstile.access.role import Role


@pytest.mark.parametrize("role", Role)
def test_a_role_includes_itself_and_the_lesser_ones(role: Role) -> None:
    order = [Role.READ, Role.SUBMIT, Role.OPERATE, Role.ADMIN]

    assert [one for one in Role if role.includes(one)] == order[: order.index(role) + 1]
