"""A session that waits for each of its reasons in turn; and the page explains all of them."""

import re

from tests.e2e.harness import Product
from tests.ops.dead_turns import make_failed
from tests.runbooks.page import FOLDER
from tests.runbooks.reader import Reader
from tests.support.probes import until
from tests.support.tampered_turns import FRUITLESS, make_pending, make_running, tamper
from tests.support.waiting_turns import RETRIED, make_due_for_an_hour, make_joining, make_settled, make_worker
from turnstile.ops.sessions.wake_turn import NotWoken
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.why.reason import Code
from turnstile.statements.paused_queues import pause_queue, read_paused_queues

IS_DUE = "execute_at <= now()"
PAGE = (FOLDER / "session-does-not-move.md").read_text()


async def test_the_page(reader: Reader, product: Product) -> None:
    database, settings = product.database, product.settings
    await make_worker(database, settings)
    turn = await make_settled(database, settings, "alice", RETRIED)
    late = await make_pending(database, settings, "late")
    await make_due_for_an_hour(settings)
    reader.names |= {"TURN": str(turn), "SESSION": "alice", "TENANT": "t"}

    # Find it, ask why.
    for line in ("--stuck", "--stuck --queue", "--stuck --json"):
        assert "late" in (await reader.up_to(f"turnstile sessions {line}")).out
    assert "It waits for its retry" in (await reader.up_to("turnstile why TURN")).out
    await reader.up_to("turnstile why TURN --json")

    # What moves it, reason by reason.
    [failed] = await make_failed(database, settings, ["failed"])
    await reader.up_to("turnstile redrive", TURN=failed)
    assert (await product.row(failed))["status"] == "PENDING"
    first, second = await make_failed(database, settings, ["first", "second"], halt=True)
    await reader.up_to("turnstile retry", TURN=first)
    await reader.up_to("turnstile skip", TURN=second)
    assert await product.fetch("SELECT FROM sessions WHERE halted_by IS NOT NULL") == []
    running = await make_running(database, settings, "running")
    await reader.up_to("turnstile cancel", TURN=running)
    assert (await product.row(running))["cancel_requested_at"] is not None
    await tamper(settings, FRUITLESS)
    await reader.up_to("turnstile doctor --fix")
    _, child = await make_joining(database, settings, "parent")
    await reader.up_to("turnstile why CHILD", CHILD=child)
    scheduled = await make_settled(database, settings, "again", RETRIED)
    await reader.up_to("turnstile wake", TURN=scheduled)
    assert await product.rows(f"id = '{scheduled}' AND {IS_DUE}")
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    await reader.up_to("turnstile queues resume")
    assert await read_paused_queues(database) == {}
    await product.fetch_nothing("DELETE FROM workers")
    await reader.up_to("turnstile worker")
    await product.status_is(late, "SUCCEEDED")
    await reader.up_to("turnstile relay")
    await until(lambda: product.fetch("SELECT FROM turns WHERE dead_lettered_at IS NOT NULL"))
    for process in reader.served:
        process.kill()
        process.join()
    for waiting in (turn, await make_settled(database, settings, "carol", RETRIED)):
        await reader.up_to("turnstile wake", TURN=waiting)
        assert await product.rows(f"id = '{waiting}' AND {IS_DUE}")

    # Move it.
    waiting = await make_settled(database, settings, "bob", RETRIED)
    await reader.up_to("turnstile wake TURN --dry-run", TURN=waiting)
    assert not await product.rows(f"id = '{waiting}' AND {IS_DUE}")
    await reader.up_to("turnstile wake TURN --yes", TURN=waiting)
    assert await product.rows(f"id = '{waiting}' AND {IS_DUE}")
    await reader.up_to("turnstile why", TURN=waiting)
    [halting] = await make_failed(database, settings, ["halting"], halt=True)
    await reader.up_to("turnstile retry", RUNNING=await make_running(database, settings, "busy"), FAILED=halting)
    await reader.up_to("turnstile status TURN", TURN=waiting)
    # The turn that was passed over.
    assert "dead-letters-waiting" in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out


def test_the_page_explains_every_reason() -> None:
    explained = re.findall(r"`([a-z-]+)`", "\n".join(re.findall(r"^\| (`[a-z-`, ]+) \|", PAGE, re.MULTILINE)))

    assert len(explained) == len(set(explained))
    assert set(explained) == {*Code}


def test_the_page_explains_every_refusal_of_a_wake() -> None:
    assert [why for why in NotWoken if why.value not in PAGE] == []
