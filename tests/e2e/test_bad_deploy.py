"""A deploy whose handler fails in every turn leaves the queue as it is."""

import urllib.error
import urllib.request
from collections import Counter

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.dev.stack.ports import choose_free
from turnstile.worker.broken_handler import MOST_ALIKE

TURNS = 12


async def test_a_bad_deploy_costs_two_turns_and_the_next_deploy_answers_the_rest(
    product: Product, start_worker: StartWorker
) -> None:
    port = choose_free()
    bad = start_worker(TURNSTILE_HANDLER="tests.e2e.broken_handlers:act", TURNSTILE_HEALTH_PORT=str(port))
    for number in range(TURNS):
        await product.submit("hi", session=f"s{number}")

    async def at_rest() -> bool:
        return bool(bad.said("worker.handler_broken")) and not await product.rows("status = 'RUNNING'")

    await until(at_rest)
    after_the_bad_one = Counter(row["status"] for row in await product.rows())
    not_ready = await until(lambda: _not_ready(port))
    bad.kill()
    start_worker()
    # As after a minute.
    await product.fetch_nothing("UPDATE turns SET execute_at = now(), send_at = now() WHERE status = 'PENDING'")

    async def all_answered() -> bool:
        return len(await product.rows("status = 'SUCCEEDED'")) == TURNS - MOST_ALIKE + 1

    await until(all_answered)

    assert after_the_bad_one == {"FAILED": MOST_ALIKE - 1, "PENDING": TURNS - MOST_ALIKE + 1}
    assert "KeyError" in not_ready


def _not_ready(port: int) -> str:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz")
    except urllib.error.HTTPError as error:
        return error.read().decode() if error.code == 503 else ""
    except urllib.error.URLError:
        return ""
    return ""
