"""Connections and processes that break in mid-stream: at the end the page shows the reply, once."""

import signal

import pytest

from tests.browser.conftest import Site
from tests.browser.handlers import reply_to

pytestmark = pytest.mark.long

HALF = 4


async def test_a_cut_network_is_not_seen_in_the_reply(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(HALF)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:HALF])

    await site.cable.cut()
    site.words.allow(2 * HALF)
    await site.cable.plug_in()

    await page.grows(*reply_to("hello")[: 2 * HALF])
    site.words.allow_all()
    await site.shows_all(page)


async def test_a_reply_that_ends_while_the_network_is_cut_is_shown(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(HALF)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:HALF])

    await site.cable.cut()
    site.words.allow_all()
    await site.product.ended()
    await site.cable.plug_in()

    await site.shows_all(page)


async def test_a_submit_whose_answer_is_lost_is_one_turn(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.cable.lose_after = b'"input":"hello"'

    await page.say("hello")

    await page.grows(*reply_to("hello"))
    await site.shows_all(page)
    assert len(await site.product.rows()) == 1
    assert site.cable.lose_after is None


async def test_a_killed_worker_begins_the_reply_again_and_ends_it_once(site: Site) -> None:
    site.start_api()
    worker = site.start_worker()
    page = await site.open()
    await page.say("before")
    await site.shows_all(page)
    site.words.allow(HALF)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:HALF])

    worker.kill()
    site.start_worker()
    site.words.allow_all()

    await site.shows_all(page, turns=2)
    assert [turn["attempt"] for turn in await site.product.rows()] == [1, 2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_a_restart_of_the_api_is_not_seen_in_the_reply(site: Site, number: signal.Signals) -> None:
    api = site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(HALF)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:HALF])

    api.signal(number)
    await site.ends(api)
    site.words.allow(2 * HALF)
    site.start_api()

    await page.grows(*reply_to("hello")[: 2 * HALF])
    site.words.allow_all()
    await site.shows_all(page)
