"""Nobody hands on more than their own role allows."""

import pytest

from turnstile.access.role import Role
from turnstile.access.verb import Verb


@pytest.mark.parametrize(
    ("verb", "role"), [(Verb.READ, Role.READ), (Verb.SUBMIT, Role.SUBMIT), (Verb.CANCEL, Role.SUBMIT)]
)
def test_a_verb_needs_a_role(verb: Verb, role: Role) -> None:
    assert verb.role is role


def test_every_verb_has_a_role() -> None:
    assert all(verb.role in Role for verb in Verb)
