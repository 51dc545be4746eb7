"""A page in Chromium, its back end, and the product's processes behind a cable that can be cut."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
from playwright.async_api import Browser, async_playwright

from tests.browser.chat_page import ChatPage
from tests.conftest import ROOT
from tests.e2e.conftest import StartWorker, evidence, product, start_worker
from tests.e2e.harness import Product, WorkerProcess
from tests.producer.api.network_faults import Cable, cable_to
from tests.producer.api.plain_server import serving_plainly
from tests.support.probes import until
from turnstile.dev.stack.ports import LOOPBACK, choose_free
from turnstile.examples.page_backend import make_backend

__all__ = ["evidence", "product", "start_worker"]

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
EXAMPLES = ROOT / "clients" / "typescript" / "examples"
BUILT = {"plain": "turnstile.browser.js", "react": "bundle.js"}
"""The example pages, and what `make client-js` makes for each."""
KEY = "key-of-the-pages"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's program. Without one the tests are left out."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip("no Chromium on the PATH: install the package chromium of your system")
    return found


@pytest.fixture(scope="session", params=sorted(BUILT))
def example(request: pytest.FixtureRequest) -> Path:
    """The folder of each example page. Where the npm package is not built the tests are left out."""
    folder = EXAMPLES / str(request.param)
    if not (folder / BUILT[request.param]).exists():
        pytest.skip("the example pages are not built: make client-js")
    return folder


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium)
        yield opened
        await opened.close()


@dataclass
class Words:
    """How many words of each reply the handler may say."""

    file: Path

    def allow(self, number: int) -> None:
        self.file.write_text(str(number))

    def allow_all(self) -> None:
        self.allow(10**6)


@dataclass
class Site:
    """Where the page is, and what is behind it."""

    url: str
    product: Product
    cable: Cable
    """Between browser and API."""
    words: Words
    start_api: Callable[[], WorkerProcess]
    start_worker: Callable[[], WorkerProcess]
    browser: Browser
    pages: list[ChatPage] = field(default_factory=list)

    async def open(self, beside: ChatPage | None = None) -> ChatPage:
        """The page in a browser of its own, or in another tab of the same."""
        context = await self.browser.new_context() if beside is None else beside.page.context
        page = ChatPage(await context.new_page())
        self.pages.append(page)
        await page.page.goto(self.url)
        await page.has_loaded()
        return page

    async def ends(self, process: WorkerProcess) -> None:
        """Waits for the end of a process."""
        await until(lambda: process.exit_code is not None)

    async def shows_all(self, page: ChatPage, *, turns: int = 1) -> None:
        """Waits until so many turns have ended, and the page shows what the tables have: each input and each reply, once and in
        their order."""

        async def submitted() -> bool:
            return len(await self.product.rows()) == turns

        await until(submitted)
        await self.product.ended()
        expected = []
        for turn in await self.product.rows():
            expected.append(("user", await self._said(turn["id"], "user")))
            if turn["status"] == "SUCCEEDED":
                expected.append(("assistant", await self._said(turn["id"], "assistant")))
        await page.shows(*expected)
        await page.is_ready()

    async def _said(self, turn_id: UUID, role: str) -> str:
        [said] = await self.product.fetch(
            f"SELECT content FROM messages WHERE turn_id = '{turn_id}' AND role = '{role}'"
        )
        return str(said["content"])


@pytest.fixture
async def site(
    product: Product, start_worker: StartWorker, browser: Browser, example: Path, tmp_path: Path
) -> AsyncIterator[Site]:
    """All of it, running: an API, a worker, and the page's back end."""
    words = Words(tmp_path / "allowed_words")
    words.allow_all()
    port = choose_free()
    async with AsyncExitStack() as stack:
        cable = await stack.enter_async_context(cable_to(LOOPBACK, port))
        backend = make_backend(str(example), f"http://{LOOPBACK}:{cable.port}", KEY)
        _, own_port = await stack.enter_async_context(serving_plainly(backend))
        url = f"http://{LOOPBACK}:{own_port}"

        def start_api() -> WorkerProcess:
            return start_worker(
                "api",
                TURNSTILE_API_PORT=str(port),
                TURNSTILE_API_KEYS=f"t:{KEY}",
                TURNSTILE_API_CORS_ORIGINS=url,
            )

        def start_speaker() -> WorkerProcess:
            return start_worker(TURNSTILE_HANDLER="tests.browser.handlers:speak", ALLOWED_WORDS=str(words.file))

        opened = Site(url, product, cable, words, start_api, start_speaker, browser)
        yield opened
        for page in opened.pages:
            page.expect_no_error()
