"""Sessions of a queue that halts: one is run again, one goes on without its turn, and many at once are run again."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.ops.dead_turns import make_failed
from tests.runbooks.reader import Reader
from tests.support.tampered_turns import make_pending
from turnstile.ops.terminal.exit_codes import ExitCode

HALTING = "SELECT halted_by FROM sessions WHERE halted_by IS NOT NULL"


async def test_the_page(reader: Reader, product: Product, start_worker: StartWorker) -> None:
    database, settings = product.database, product.settings
    mended, hopeless, *many = await make_failed(database, settings, ["a", "b", "c", "d"], halt=True)
    behind = await make_pending(database, settings, "b")
    reader.names |= {"TURN": str(mended), "SESSION": "a", "TENANT": "t", "strict": settings.queue}

    assert str(mended) in (await reader.up_to("turnstile list --halting")).out
    assert "turnstile skip" in (await reader.up_to("turnstile why SESSION")).out
    assert "session-halted" in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out

    await reader.up_to("turnstile retry TURN --dry-run")
    assert len(await product.fetch(HALTING)) == 4
    start_worker()
    assert "is SUCCEEDED" in (await reader.up_to("turnstile retry TURN")).err
    await reader.up_to("turnstile skip TURN", TURN=hopeless)
    assert {row["halted_by"] for row in await product.fetch(HALTING)} == {*many}
    await product.status_is(behind, "SUCCEEDED")
    assert (await product.row(hopeless))["status"] == "FAILED"

    await reader.up_to("turnstile trace TURN")
    await reader.up_to("turnstile redrive --turn TURN", TURN=hopeless)
    await product.status_is(hopeless, "SUCCEEDED")
    await reader.up_to("turnstile list --halting --queue strict")
    await product.ended()
    assert {(await product.row(turn))["status"] for turn in many} == {"SUCCEEDED"}

    await reader.to_the_end()
