"""Faults that users of Cloudflare's chat agents have reported (github.com/cloudflare/agents), told as what must hold here."""

import asyncio

import pytest

from tests.browser.conftest import Site
from tests.browser.handlers import reply_to

pytestmark = pytest.mark.long


async def test_messages_that_are_sent_during_a_reply_are_each_answered_once(site: Site) -> None:
    """#1231: each way to treat a message that comes during a reply, but one, doubled the reply."""
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(3)
    await page.say("first")
    await page.grows(*reply_to("first")[:3])

    # One page takes the message at once, the other one when the reply has ended.
    saying = asyncio.create_task(page.say("second"))
    site.words.allow_all()
    await saying

    await site.shows_all(page, turns=2)


async def test_a_recovered_reply_does_not_touch_the_message_before(site: Site) -> None:
    """#1691: after a crash, recovered text was appended to the previous reply."""
    site.start_api()
    worker = site.start_worker()
    page = await site.open()
    await page.say("before")
    await site.shows_all(page)
    site.words.allow(3)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:3])
    worker.kill()
    await page.reload()

    site.start_worker()
    site.words.allow_all()

    await site.shows_all(page, turns=2)


async def test_resuming_twice_shows_the_text_once(site: Site) -> None:
    """#1733: a stream that was offered twice was rendered twice."""
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(3)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:3])
    await page.reload()
    await page.reload()
    await site.cable.cut()
    await site.cable.plug_in()

    await page.grows(*reply_to("hello")[:3])
    site.words.allow_all()

    await site.shows_all(page)


async def test_the_page_is_ready_again_after_a_recovery(site: Site) -> None:
    """#1485: the page stayed "streaming" after a recovery."""
    site.start_api()
    worker = site.start_worker()
    page = await site.open()
    site.words.allow(3)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:3])
    await site.cable.cut()
    worker.kill()
    site.start_worker()
    site.words.allow_all()
    await site.product.ended()
    await site.cable.plug_in()

    await page.is_ready()

    await page.say("next")
    await page.grows(*reply_to("next"))
    await site.shows_all(page, turns=2)


async def test_the_first_message_of_a_fresh_page_is_answered_once(site: Site) -> None:
    """agents-starter#157: a fresh project doubled each reply."""
    site.start_api()
    site.start_worker()
    page = await site.open()

    await page.say("hello")

    await page.grows(*reply_to("hello"))
    await site.shows_all(page)
    assert [(turn["status"], turn["attempt"]) for turn in await site.product.rows()] == [("SUCCEEDED", 1)]
