"""`turnstile dev` while it runs: the API with the page, the workers, and the watch over the code, on one event loop."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

from turnstile.config.settings import Settings
from turnstile.dev.page.dev_page import WorkerState, make_routes
from turnstile.dev.reload.watched_code import watch
from turnstile.dev.reload.workers import DevWorkers
from turnstile.ops.terminal.exit_codes import CommandError
from turnstile.ops.terminal.output import say
from turnstile.process import logs
from turnstile.process.database_role import connecting_as
from turnstile.process.startup_check import check_servers
from turnstile.process.stop_signals import on_stop_signal
from turnstile.producer.app import create_app, server_config
from turnstile.producer.http.pages import allow_pages
from turnstile.producer.server import Server

PAGES_OF_THIS_MACHINE = r"http://(127\.0\.0\.1|localhost)(:\d+)?"
"""Origins of the dev servers of front ends, whose pages may call this API with a token. Unless the settings name others."""


class _Api(Server):
    """Leaves the signals to `turnstile dev`, and says when it listens."""

    def __init__(self, settings: Settings, workers: DevWorkers, handler: str) -> None:
        def state() -> WorkerState:
            now = workers.state
            return WorkerState(handler=handler, pid=workers.pid, is_loading=now.loading is not None, fault=now.fault)

        app = create_app(settings)
        app.include_router(make_routes(state, workers.kill))
        if not settings.api_cors_origins:
            allow_pages(app, (), PAGES_OF_THIS_MACHINE)
        config = server_config(settings, app, app.state.connections)
        super().__init__(config, lambda: app.state.backend.watch.stop())
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    settings: Settings,
    sockets: list[socket],
    workers: DevWorkers,
    handler: str,
    code: Path | None,
    welcome: Callable[[], None],
) -> None:
    """Runs until a stop signal; a second one kills the workers. `code` is the folder to watch. `welcome` is called as soon as the
    API listens and the first worker has tried to load the handler.

    Raises CommandError if the API ends by itself.
    """
    settings = connecting_as(settings, "api")
    logs.configure(settings)
    await check_servers(settings)
    api = _Api(settings, workers, handler)
    stopping, at_once = asyncio.Event(), asyncio.Event()

    def stop(_: int) -> None:
        if stopping.is_set():
            at_once.set()
            api.force_exit = True
        stopping.set()

    on_stop_signal(stop)
    stopped = asyncio.create_task(stopping.wait(), name="stop signal")
    serving = asyncio.create_task(api.serve(sockets), name="API")
    running = asyncio.create_task(workers.run(), name="workers")
    beside = [asyncio.create_task(_greet(api, workers, welcome), name="welcome")]
    if code is not None:
        beside.append(asyncio.create_task(_reload(workers, code, settings.config.name), name="watch"))
    workers.code_changed()
    try:
        await asyncio.wait({stopped, serving, running, *beside[1:]}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            say("stopping; Ctrl-C again kills")
    finally:
        for task in (stopped, *beside):
            task.cancel()
        api.should_exit = True
        workers.end()
        await asyncio.gather(running, return_exceptions=True)
        await workers.stop(at_once)
        await asyncio.gather(serving, *beside, return_exceptions=True)
    for task in (serving, running, *beside):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    if not stopping.is_set():
        raise CommandError("the API ended by itself; see its last lines above")


async def _greet(api: _Api, workers: DevWorkers, welcome: Callable[[], None]) -> None:
    await api.listening.wait()
    await workers.tried.wait()
    welcome()


async def _reload(workers: DevWorkers, code: Path, config: str) -> None:
    async for changed in watch(code):
        names = sorted(path.name for path in changed)
        say(f"{', '.join(names)} changed: a new worker loads the code")
        if config in names:
            say(f"the API reads {config} only at its start: stop `turnstile dev` and start it again")
        workers.code_changed()
