"""The types of the client are those of the API's OpenAPI document."""

from typing import Any, get_type_hints

import pytest

from turnstile.client import documents
from turnstile.config.settings import Settings
from turnstile.producer.app import create_app
from turnstile.submission.turn_batch import BatchedTurn
from turnstile.submission.turn_request import TurnRequest

SCHEMAS: dict[str, Any] = create_app(Settings()).openapi()["components"]["schemas"]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (documents.Turn, "TurnDetail"),
        (documents.TurnSummary, "TurnSummary"),
        (documents.SubmittedTurn, "SubmittedTurn"),
        (documents.TurnLinks, "TurnLinks"),
        (documents.TurnError, "TurnError"),
        (documents.WebhookState, "WebhookState"),
        (documents.CancelAnswer, "CancelAnswer"),
        (documents.SessionCancelAnswer, "SessionCancelAnswer"),
        (documents.SessionMessage, "SessionMessage"),
        (documents.BrowserToken, "BrowserToken"),
        (documents.TurnWithInput, "TurnWithInput"),
        (documents.SessionSummary, "SessionSummary"),
        (documents.SessionDetail, "SessionDetail"),
        (documents.SessionLinks, "SessionLinks"),
        (documents.RunningReply, "RunningReply"),
    ],
)
def test_a_document_has_the_members_of_its_schema_and_null_where_it_may_be(kind: Any, schema: str) -> None:
    members = SCHEMAS[schema]["properties"]
    hints = get_type_hints(kind)

    assert hints.keys() == members.keys()
    anything = {name for name, hint in hints.items() if hint is Any}
    nullable = {name for name, said in members.items() if {"type": "null"} in said.get("anyOf", ())}
    assert {name for name, hint in hints.items() if type(None) in getattr(hint, "__args__", ())} == nullable - anything


def test_the_options_of_a_submit_are_those_of_the_api() -> None:
    assert documents.TurnOptions.__annotations__.keys() == TurnRequest.model_fields.keys() - {"input"}


def test_a_turn_of_a_batch_has_the_fields_of_the_api() -> None:
    assert get_type_hints(documents.BatchTurn).keys() == BatchedTurn.model_fields.keys()


def test_the_statuses_are_those_of_the_api() -> None:
    assert set(documents.Status.__args__) == set(SCHEMAS["TurnStatus"]["enum"])
