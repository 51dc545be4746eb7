"""The button that stops a reply: the turn is canceled, not only its display."""

import pytest

from tests.browser.conftest import Site
from tests.browser.handlers import reply_to

pytestmark = pytest.mark.long


async def test_stop_cancels_the_turn_and_keeps_its_text(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(3)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:3])

    await page.stop()

    await site.product.all_in("CANCELED")
    await page.is_ready()
    await page.grows(*reply_to("hello")[:3])


async def test_stop_after_a_reload_cancels_the_turn(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(3)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:3])
    await page.reload()
    await page.grows(*reply_to("hello")[:3])

    await page.stop()

    await site.product.all_in("CANCELED")
    await page.is_ready()


async def test_a_message_after_a_stop_is_answered(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(3)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:3])
    await page.stop()
    await site.product.all_in("CANCELED")
    await page.is_ready()
    site.words.allow_all()

    await page.say("again")

    await page.grows(*reply_to("again"))
    await page.is_ready()
    assert [turn["status"] for turn in await site.product.rows()] == ["CANCELED", "SUCCEEDED"]
