"""`GET /v1/sessions/{id}`: everything that a chat page shows after a reload."""

from typing import Any

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import end, submit, succeed
from tests.producer.api.conversation import Conversation
from tests.producer.api.expectations import expect_problem
from tests.producer.api.network_faults import Cable
from tests.producer.api.sse_client import Transcript, read_events
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.exceptions import Retry
from turnstile.producer.routes.session_responses import SessionDetail
from turnstile.producer.routes.turn_responses import TurnWithInput
from turnstile.statements.settle import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

PATH = "/v1/sessions/s"
ALL = {"include": "open,failed,canceled,partial"}

REJECTED = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Reject", error="not today", fault=True
)
BROKEN = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Boom", error="password", fault=True
)


async def read(client: AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_page_gets_all_that_it_shows(client: AsyncClient, database: Database, settings: Settings) -> None:
    for text, settlement in (("one", succeed("reply")), ("two", REJECTED), ("three", BROKEN)):
        await submit(client, text=text)
        await end(database, settings, "s", settlement)
    stopped = await submit(client, text="four")
    await client.post(f"/v1/turns/{stopped}/cancel")
    await submit(client, text="five")

    found = await read(client, **ALL)

    assert set(found) == set(SessionDetail.model_fields)
    assert [(message["role"], message["content"]) for message in found["messages"]] == [
        ("user", "one"),
        ("assistant", "reply"),
    ]
    assert [(turn["input"], turn["error"]) for turn in found["failed"]] == [
        ("two", {"class": "Reject", "message": "not today"}),
        ("three", {"class": "Boom", "message": None}),
    ]
    assert [(turn["input"], turn["status"]) for turn in found["open"]] == [("five", "PENDING")]
    assert [turn["input"] for turn in found["canceled"]] == ["four"]
    assert all(set(turn) == set(TurnWithInput.model_fields) for turn in (*found["open"], *found["failed"]))
    assert (found["id"], found["partial"], found["next_cursor"], found["more_open"]) == ("s", None, None, False)


async def test_without_include_there_are_messages_alone(client: AsyncClient) -> None:
    await submit(client)

    found = await read(client)

    assert found["messages"] == []
    assert [found[part] for part in ("open", "failed", "canceled", "partial")] == [None] * 4


async def test_its_cursor_leads_to_the_messages_before(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    for number in range(3):
        await submit(client, text=f"in {number}")
        await end(database, settings, "s", succeed(f"out {number}"))

    found = await read(client, limit=3)
    older = (await client.get(found["links"]["messages"], params={"cursor": found["next_cursor"]})).json()

    said = [message["content"] for message in (*older["messages"], *found["messages"])]
    assert said == ["in 0", "out 0", "in 1", "out 1", "in 2", "out 2"]


@pytest.mark.parametrize("query", ["include=", "include=open,", "include=all", "include=open%20failed", "cursor=1.0"])
async def test_a_bad_parameter_is_refused(client: AsyncClient, query: str) -> None:
    await submit(client)

    expect_problem(await client.get(f"{PATH}?{query}"), 422, "invalid-parameter")


async def read_partial(talk: Conversation, text: str | None) -> dict[str, Any]:
    """What the running turn has said, once it has said this."""
    found: dict[str, Any] = {}

    async def said() -> bool:
        found.update(await read(talk.client, **ALL))
        return found["partial"] is not None and found["partial"]["text"] == text

    await until(said)
    partial: dict[str, Any] = found["partial"]
    return partial


async def test_a_stream_goes_on_where_the_partial_text_ends(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("Hel", {"tool": "search"}, "lo")
    partial = await read_partial(talk, "Hello")
    assert (partial["turn_id"], partial["custom"]) == (str(turn), [{"tool": "search"}])

    page = Transcript(text=partial["text"], last_id=partial["last_event_id"])
    talk.script.emit({"tool": "read"}, ", world")
    talk.script.reply("Hello, world")
    await until(lambda: _is_answered(talk))
    await read_events(talk.client, turn, page)

    assert (page.text, page.customs) == ("Hello, world", [{"tool": "read"}])
    assert page.kinds == ["metadata", "custom", "delta", "end"]


async def _is_answered(talk: Conversation) -> bool:
    return bool((await read(talk.client, **ALL))["messages"])


async def test_a_turn_that_has_ended_is_a_message_and_no_longer_partial(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("Hi")
    await read_partial(talk, "Hi")
    talk.script.reply("Hi")
    await until(lambda: _is_answered(talk))

    found = await read(talk.client, **ALL)

    assert [message["content"] for message in found["messages"]] == ["hi", "Hi"]
    assert (found["open"], found["partial"]) == ([], None)


async def test_a_turn_that_waits_for_its_retry_has_no_partial_text(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("Wrong")
    await read_partial(talk, "Wrong")
    talk.script.fail(Retry(after=60))

    async def waits() -> bool:
        found = await read(talk.client, **ALL)
        return bool(found["partial"] is None and found["open"][0]["failures"] == 1)

    await until(waits)


async def test_while_redis_is_away_the_text_is_unknown_and_the_stream_begins_at_its_start(
    cabled_talk: Conversation, redis_cable: Cable
) -> None:
    turn = await cabled_talk.submit()
    cabled_talk.work(turn)
    cabled_talk.script.emit("Hello")
    await read_partial(cabled_talk, "Hello")
    await redis_cable.cut()

    partial = await read_partial(cabled_talk, None)

    assert partial == {"turn_id": str(turn), "text": None, "custom": [], "last_event_id": "-1"}
