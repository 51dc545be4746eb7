"""Commands that wait for a turn's end, or say who is to be told of it."""

import asyncio
import json
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from tests.ops.commands.conftest import Turnstile
from tests.ops.commands.dead_turns import make_failed, rows
from tests.producer.api.listening import serving
from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import claim
from turnstile.statements.settle import SettleRequest, settle
from turnstile.statements.submit import submit
from turnstile.streaming.event import name_stream
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def succeed(database: Database, settings: Settings, session_id: str) -> None:
    """The head of the session is answered."""
    terms = make_terms(settings)
    (turn,) = await claim(database, terms, [make_claim(session_id)])
    assert isinstance(turn, ClaimedTurn)
    settlement = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply="good")
    request = SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
    await settle(database, terms, [request])


async def test_a_submit_names_who_is_told_of_the_end(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    hosts = {"webhook_hosts": ("hooks.example.com",), "webhook_secrets": (WEBHOOK_SECRET,)}
    wanted = ("submit", "alice", "hello", "--webhook", "https://hooks.example.com/done")

    async with serving(settings.model_copy(update=hosts)) as served:
        over_http = await turnstile(*wanted, TURNSTILE_API_URL=f"http://127.0.0.1:{served.port}")
    async with serving(settings) as served:
        refused = await turnstile(*wanted, TURNSTILE_API_URL=f"http://127.0.0.1:{served.port}")

    [row] = (await rows(database)).values()
    assert (over_http.code, refused.code) == (0, 2)
    assert row["webhook_url"] == "https://hooks.example.com/done"
    assert "webhooks are not enabled here" in refused.err


async def test_a_direct_submit_is_held_to_the_same_hosts(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    allowed = {"TURNSTILE_WEBHOOK_HOSTS": "hooks.example.com", "TURNSTILE_WEBHOOK_SECRETS": WEBHOOK_SECRET}
    line = json.dumps({"session_id": "a", "input": "x", "webhook_url": "https://hooks.example.com/line"})

    argument = await turnstile(
        "submit", "a", "x", "--direct", "--webhook", "https://hooks.example.com/argument", **allowed
    )
    file = await turnstile("submit", "--direct", "--file", "-", text=line, **allowed)
    elsewhere = await turnstile("submit", "a", "x", "--direct", "--webhook", "https://else.example.com/", **allowed)
    nowhere = await turnstile("submit", "--direct", "--file", "-", text=line)
    no_address = await turnstile("submit", "a", "x", "--direct", "--webhook", "http://hooks.example.com/", **allowed)

    assert {row["webhook_url"] for row in (await rows(database)).values()} == {
        "https://hooks.example.com/argument",
        "https://hooks.example.com/line",
    }
    assert [one.code for one in (argument, file, elsewhere, nowhere, no_address)] == [0, 0, 2, 2, 2]
    assert "line 1: webhook_url: webhooks are not enabled here" in nowhere.err


async def test_status_waits_for_the_end_and_its_exit_code_says_how_that_was(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    submission = make_submission(settings.queue, "a")
    await submit(database, [submission], net_seconds=60)
    (failed,) = await make_failed(database, settings, ["b"])
    turn = str(submission.turn_id)

    in_vain = await turnstile("status", turn, "--wait", "0.2", "--json")
    waiting = asyncio.create_task(turnstile("status", turn, "--wait", "30", "--json"))
    await succeed(database, settings, "a")
    ended = await waiting
    otherwise, nobody, at_once = [
        await turnstile("status", *words)
        for words in ((str(failed), "--wait", "30"), (str(uuid4()), "--wait", "30"), (str(failed),))
    ]

    assert [json.loads(one.out)["turn"]["status"] for one in (in_vain, ended)] == ["PENDING", "SUCCEEDED"]
    assert [one.code for one in (in_vain, ended, otherwise, nobody, at_once)] == [1, 0, 1, 3, 0]
    assert "FAILED" in otherwise.out


@pytest.mark.parametrize("named", ["turn", "session"])
async def test_a_cancel_tells_whoever_watches_a_waiting_turn(
    turnstile: Turnstile, database: Database, settings: Settings, named: str
) -> None:
    submission = make_submission(settings.queue, "a")
    await submit(database, [submission], net_seconds=60)
    channel = name_stream(settings.redis_prefix, submission.tenant_id, "a", submission.turn_id)
    whom = (str(submission.turn_id),) if named == "turn" else ("--session", "a", "--tenant", submission.tenant_id)

    async with Redis.from_url(settings.redis_url, decode_responses=True) as client, client.pubsub() as watching:
        await watching.subscribe(channel)
        await watching.get_message(timeout=30)
        await turnstile("cancel", *whom, REDIS_URL=settings.redis_url, TURNSTILE_REDIS_PREFIX=settings.redis_prefix)
        heard = await watching.get_message(timeout=30)

    assert (heard["channel"], heard["data"]) == (channel, "end")
