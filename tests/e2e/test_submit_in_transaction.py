"""Turns of an application's own transactions, answered by real workers."""

import psycopg

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from tests.support.process_roles import url_of
from turnstile import Submitter
from turnstile.ops.roles.kinds import Kind


async def test_a_commit_is_answered_though_the_relays_round_is_far_away(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_RELAY_TICK_SECONDS="3600", TURNSTILE_RELAY_STAMP_SECONDS="7200")
    await until(lambda: worker.said("relay.listens"))
    with psycopg.connect(url_of(Kind.SUBMITTER, product.settings.database_url)) as connection:
        submitted = [
            Submitter(product.settings).submit(connection, "new", {"do": "echo"}, key=f"{number}")
            for number in range(3)
        ]
        connection.commit()

    for turn in submitted:
        await product.status_is(turn.id, "SUCCEEDED")
    assert [(await product.row(turn.id))["seq"] for turn in submitted] == [1, 2, 3]
