"""A person at one of the example pages. All of them have the same elements."""

from typing import Any

from playwright.async_api import Page

from tests.support.probes import until


class ChatPage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self._errors: list[str] = []
        page.on("pageerror", lambda error: self._errors.append(str(error)))

    async def has_loaded(self) -> None:
        """Waits until the page shows what was said before."""
        await self.page.wait_for_selector("body:not([data-status=loading])")

    async def is_ready(self) -> None:
        """Waits until the page says that no turn is open."""
        await self.page.wait_for_selector("body[data-status=ready]")

    async def say(self, text: str) -> None:
        """Types a message and sends it."""
        await self.page.fill("#message", text)
        await self.page.click("#send")

    async def stop(self) -> None:
        await self.page.click("#stop")

    async def reload(self) -> None:
        await self.page.reload()
        await self.has_loaded()

    async def grows(self, *words: str) -> None:
        """Waits until the last thing shown is a reply of exactly these words."""
        text = "".join(words)

        async def same() -> bool:
            shown = await self.shown()
            return bool(shown) and shown[-1] == ("assistant", text)

        await until(same)

    async def shown(self) -> list[tuple[str, str]]:
        """Who has said what, from top to bottom."""
        found: list[list[str]] = await self.page.eval_on_selector_all(
            "[data-role]", "all => all.map(one => [one.dataset.role, one.textContent])"
        )
        return [(role, text) for role, text in found]

    async def shows(self, *expected: tuple[str, str]) -> None:
        """Waits until exactly this is shown."""
        last: Any = None

        async def same() -> bool:
            nonlocal last
            last = await self.shown()
            return last == [*expected]

        try:
            await until(same)
        except AssertionError:
            assert last == [*expected]

    def expect_no_error(self) -> None:
        """No script of the page has failed."""
        assert self._errors == []
