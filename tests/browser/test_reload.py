"""What a reload, or another tab, shows of a reply that is still growing."""

import pytest

from tests.browser.conftest import Site
from tests.browser.handlers import reply_to

pytestmark = pytest.mark.long

HALF = 4
"""How many words of a reply are shown before something happens."""


async def test_a_reply_is_shown_while_it_grows(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    site.words.allow(HALF)

    await page.say("hello")

    await page.grows(*reply_to("hello")[:HALF])
    site.words.allow_all()
    await site.shows_all(page)


async def test_a_reload_in_mid_stream_goes_on_to_the_whole_reply(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    await page.say("before")
    await site.shows_all(page)
    site.words.allow(HALF)
    await page.say("hello")
    await page.grows(*reply_to("hello")[:HALF])

    await page.reload()

    await page.grows(*reply_to("hello")[:HALF])
    site.words.allow_all()
    await site.shows_all(page, turns=2)


async def test_a_reload_after_the_end_shows_the_same(site: Site) -> None:
    site.start_api()
    site.start_worker()
    page = await site.open()
    await page.say("hello")
    await site.shows_all(page)

    await page.reload()

    await site.shows_all(page)


async def test_two_tabs_show_the_same_growing_reply(site: Site) -> None:
    site.start_api()
    site.start_worker()
    one = await site.open()
    site.words.allow(HALF)
    await one.say("hello")
    await one.grows(*reply_to("hello")[:HALF])

    other = await site.open(beside=one)

    await other.grows(*reply_to("hello")[:HALF])
    site.words.allow_all()
    await site.shows_all(one)
    await site.shows_all(other)


async def test_another_browser_sees_nothing_of_it(site: Site) -> None:
    site.start_api()
    site.start_worker()
    one = await site.open()
    await one.say("hello")
    await site.shows_all(one)

    stranger = await site.open()

    assert await stranger.shown() == []
