"""Whose text a client may read."""

import pytest

from turnstile.turn import error_classes
from turnstile.turn.error_classes import name_class, text_for_clients

OURS = ["Reject", "Retry", "timeout", "expired", "shutdown_loop", "crash_loop"]


@pytest.mark.parametrize("ours", OURS)
def test_clients_get_the_text_of_an_instruction_and_of_turnstile_itself(ours: str) -> None:
    assert text_for_clients(ours, "said for you") == "said for you"


@pytest.mark.parametrize("other", ["ValueError", "unfit_reply", "reject", "handlers.Reject", "", None])
def test_clients_get_no_other_text(other: str | None) -> None:
    assert text_for_clients(other, "password: hunter2") is None


@pytest.mark.parametrize("ours", [*OURS, "unfit_reply"])
def test_a_strangers_class_is_never_taken_for_one_of_ours(ours: str) -> None:
    stranger = type(ours, (Exception,), {"__module__": "celery.exceptions"})

    assert name_class(stranger("password: hunter2")) == f"celery.exceptions.{ours}"
    assert text_for_clients(name_class(stranger()), "password: hunter2") is None


def test_any_other_class_is_named_without_its_module() -> None:
    assert name_class(ValueError("x")) == "ValueError"


def test_every_word_of_this_program_is_looked_at() -> None:
    words = {value for name, value in vars(error_classes).items() if name.isupper() and not name.startswith("_")}

    assert words == {*OURS, "unfit_reply"}
