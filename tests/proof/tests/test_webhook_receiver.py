"""The receiver of the chaos run: it takes what the product signs, and nothing else; its moods are its seed's."""

from pathlib import Path

import pytest

from tests.proof.chaos.journal import Journal
from tests.proof.chaos.webhook_receiver import MOODS, SECRET, Receiver, is_verified
from turnstile.webhooks.signature import signed_headers

BODY = b'{"type":"turn.succeeded"}'


def test_what_the_product_signs_is_verified() -> None:
    assert is_verified(signed_headers([SECRET], "turn_a_1", 1, BODY), BODY)


@pytest.mark.parametrize(
    "changed", [{"webhook-id": "turn_a_2"}, {"webhook-timestamp": "2"}, {"webhook-signature": "v1,x"}]
)
def test_what_was_changed_on_the_way_is_not(changed: dict[str, str]) -> None:
    assert not is_verified(signed_headers([SECRET], "turn_a_1", 1, BODY) | changed, BODY)


def test_another_body_is_not() -> None:
    assert not is_verified(signed_headers([SECRET], "turn_a_1", 1, BODY), BODY + b" ")


def test_the_same_seed_has_the_same_moods_and_a_calm_run_has_none(tmp_path: Path) -> None:
    def moods(seed: int, *, moody: bool = True) -> list[str]:
        receiver = Receiver(Journal(tmp_path), seed, moody=moody)
        return [receiver._mood(f"turn_{number}_1") for number in range(300)]

    assert moods(1) == moods(1) != moods(2)
    assert set(moods(1)) == set(MOODS)
    assert set(moods(1, moody=False)) == {"204"}
