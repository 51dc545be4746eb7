"""`turnstile sessions --stuck`: the sessions that do not move, each with the reason that `turnstile why` gives."""

import json

from inline_snapshot import snapshot

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed
from tests.ops.wording import wording
from tests.support.tampered_turns import LOST, make_pending, make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.paused_queues import pause_queue


async def test_each_stuck_session_has_its_reason_and_command(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    waiting = await make_pending(database, settings, "waiting")
    lost = await make_running(database, settings, "lost")
    [failed] = await make_failed(database, settings, ["halted"], halt=True)
    await tamper(settings, LOST)
    await tamper(settings, "UPDATE turns SET created_at = now() - interval '2 h' WHERE session_id = 'waiting'")
    await pause_queue(database, settings.queue, paused_by="ann", reason=None)

    ran = await turnstile("sessions", "--stuck", "--json")
    table = await turnstile("sessions", "--stuck", COLUMNS="200")

    document = json.loads(ran.out)
    found = {
        one["session_id"]: (one["turn"]["id"], one["reason"]["code"], one["commands"]) for one in document["sessions"]
    }
    assert list(found) == ["waiting", "lost", "halted"]
    assert found["waiting"] == (str(waiting), "paused", [f"turnstile queues resume {settings.queue}"])
    assert found["lost"] == (str(lost), "lost", [f"turnstile queues resume {settings.queue}"])
    assert found["halted"] == (str(failed), "halted", [f"turnstile retry {failed}", f"turnstile skip {failed}"])
    assert document["truncated"] is False
    why = json.loads((await turnstile("why", str(waiting), "--json")).out)
    assert why["reason"] == document["sessions"][0]["reason"]
    assert wording(table.out, WAITING=waiting, LOST=lost, FAILED=failed, QUEUE=settings.queue) == snapshot("""\
session waiting of tenant t  queue QUEUE               paused since TIME                  turn WAITING
  to move it: turnstile queues resume QUEUE
session lost of tenant t  queue QUEUE               lost since TIME                  turn LOST
  to move it: turnstile queues resume QUEUE
session halted of tenant t  queue QUEUE               halted since TIME                  turn FAILED
  to move it: turnstile retry FAILED
  or:         turnstile skip FAILED
""")


async def test_that_no_session_is_stuck_is_said(turnstile: Turnstile) -> None:
    assert (await turnstile("sessions", "--stuck")).err == "no session is stuck\n"


async def test_the_age_the_queue_and_the_tenant_narrow_the_list(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_pending(database, settings)
    await tamper(settings, "UPDATE turns SET created_at = now() - interval '1 min'")

    found = {
        words: len(json.loads((await turnstile("sessions", "--stuck", "--json", *words.split())).out)["sessions"])
        for words in (
            "",
            "--older-than 30s",
            "--older-than 2m",
            f"--older-than 30s --queue {settings.queue}",
            "--older-than 30s --tenant t",
            "--older-than 30s --tenant u",
        )
    }

    assert list(found.values()) == [0, 1, 0, 1, 1, 0]
    assert (await turnstile("sessions", "--stuck", "--queue", "other")).code == 3, "a typing mistake is an error"


async def test_without_stuck_and_with_a_wrong_age_the_command_line_is_refused(turnstile: Turnstile) -> None:
    ran = [await turnstile("sessions", *words) for words in ((), ("--stuck", "--older-than", "5"))]

    assert [one.code for one in ran] == [2, 2]
    assert "--stuck" in ran[0].err
    assert "not an age" in ran[1].err
