"""The benchmark measures: in small, on the tests' own stack, and without any figure."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from bench.contenders import FLOOR, FLOOR_OWN, OURS, Contender
from bench.drains import Work, drain
from bench.emulated_sqs import start_emulator
from bench.running import attempt, run
from bench.stage import Stage, open_stage
from turnstile.config.settings import Settings
from turnstile.dev.stack.stack import LocalStack
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.identifiers import uuid7
from turnstile.turn.wire_format import WakeUp

pytestmark = pytest.mark.not_on("containers", "it measures the processes of the embedded stack")

TURNS = 60
WITHIN_SECONDS = 60.0


@pytest.fixture(scope="module")
def stage(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_stage(tmp_path_factory.mktemp("bench"), stack) as opened:
        yield opened


@pytest.mark.parametrize("contender", [OURS, FLOOR, FLOOR_OWN], ids=lambda contender: contender.name)
def test_a_drain_is_measured_to_its_end(stage: Stage, contender: Contender) -> None:
    found = drain(stage, contender, Work(count=TURNS))

    assert found["whole"]
    assert found["duplicates"] == 0
    assert found["rss_mb"] > 0


def test_a_contender_is_looked_at_from_outside(stage: Stage) -> None:
    with stage.room("look") as room:
        stage.sqs.send_all(room.queue_url, OURS.fill(room, TURNS))
        with run(stage, room, OURS, slots=8) as running:
            before = running.look()
            running.require("through", lambda: running.handled() >= TURNS, WITHIN_SECONDS)
            running.require("settled", lambda: stage.sqs.counts(room.queue).left == 0, WITHIN_SECONDS)
            after, starts = running.look(), running.starts()
        with psycopg.connect(room.database_url) as connection:
            ended = connection.execute("SELECT count(*) FROM turns WHERE status = 'SUCCEEDED'").fetchone()

    assert ended == (TURNS,)
    assert {start.number for start in starts} == set(range(TURNS))
    assert after.worker > before.worker
    assert after.calls >= 2 * TURNS / 10
    assert running.process.poll() is not None


def test_a_contender_that_ends_by_itself_is_told_with_its_last_words(stage: Stage) -> None:
    broken = replace(OURS, command=lambda slots, sleep_seconds: [sys.executable, "-c", "raise SystemExit('no luck')"])

    sample = attempt(broken, lambda: drain(stage, broken, Work(count=1)))

    assert sample.figures == {}
    assert sample.note == "ours ended by itself: no luck"


def test_a_contender_that_can_not_run_here_is_left_out_with_the_reason() -> None:
    absent = replace(OURS, missing=lambda: "there is no node here")

    assert attempt(absent, dict).note == "not run: there is no node here"


async def test_the_products_own_client_works_on_the_emulator(settings: Settings, tmp_path: Path) -> None:
    with start_emulator(tmp_path / "log") as emulator:
        url, dlq_url = emulator.create_queue("q", 30), emulator.create_queue("q-dlq", 30)
        declared = settings.queues[0].model_copy(update={"sqs": url, "dlq": dlq_url})
        queues = MessageQueues(
            settings.model_copy(
                update={
                    "queues": (declared,),
                    "sqs_endpoint_url": emulator.address,
                }
            )
        )
        wake_up = WakeUp("t", "s", uuid7(0, 0))
        sent = await queues.send(declared.name, [OutgoingMessage(wake_up, "00-a-b-01")])
        [received] = await queues.receive(declared.name, 10)
        await queues.extend(await queues.find(declared.name), [received])
        await queues.delete(declared.name, [received])
        left = await queues.count(declared.name)
        counts = emulator.counts("q")
        await queues.close()

    assert len(sent) == 1
    assert received.body == wake_up.encode()
    assert received.trace_id == "a"
    assert left == 0
    assert counts.calls["ChangeMessageVisibilityBatch"] == 1
    assert counts.messages == {"sent": 1, "received": 1, "deleted": 1}
