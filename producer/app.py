"""The composition root of the API: what is opened in which order, and how it is served."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from resource import RLIMIT_NOFILE, getrlimit
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI
from starlette.types import Receive, Scope, Send

from turnstile.backends.postgres.database import STATEMENT_TIMEOUT_SECONDS, Database
from turnstile.backends.sqs.endpoint import SqsOptions, find_region
from turnstile.config import logs
from turnstile.config.gc_tuning import spare_collector
from turnstile.config.redis_clients import RedisClients
from turnstile.config.settings import Settings
from turnstile.config.startup_tls_check import check_certificates
from turnstile.memory.history import History
from turnstile.message_queue import MessageQueues
from turnstile.producer.cancel import cancelling
from turnstile.producer.cancel.cancelling import Cancelling
from turnstile.producer.http import problems
from turnstile.producer.http.auth import ApiKeys
from turnstile.producer.http.client_connections import Connections
from turnstile.producer.http.connection_bounds import find_bounds
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.parameters import refuse_unknown_parameters
from turnstile.producer.http.response_headers import ResponseHeaders
from turnstile.producer.routes import cancel as cancel_routes
from turnstile.producer.routes import error_handlers, openapi, stream
from turnstile.producer.routes import submit as submit_routes
from turnstile.producer.routes import turns as api
from turnstile.producer.routes.readiness import DatabaseProbe, report_queues
from turnstile.producer.server import Server, listen
from turnstile.producer.submit.intake import Intake
from turnstile.producer.watch.places import WatchPlaces
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.streaming.cancel_signals import CancelHints
from turnstile.submit.submitting import Submitting
from turnstile.submit.wake_ups import WakeUpSending

HOT_CONNECTIONS = 4
"""For submits alone."""
READ_CONNECTIONS = 8
LIST_CONNECTIONS = 2
LIST_TIMEOUT_SECONDS = 2
"""A list looks at as many turns as its filter skips. Connections of its own, and few: lists that take long must not keep
everybody from reading a turn."""
DATABASE_WAIT_SECONDS = 1.5
"""For a connection. A submit waits twice at most before it answers 503."""

ROW_WAIT_SECONDS = 2
"""For a row that somebody holds. So long a session can keep others from being taken in, once."""

GRACE_SECONDS = 15
"""From the first signal until open requests are broken off."""

KEEP_ALIVE_SECONDS = 130
"""An idle connection outlives the load balancer's (120 s in `infra/`): where the server hangs up first, a request that is just
being sent gets no answer. uvicorn's own 5 s would cost some with any balancer."""

ALWAYS_ANSWERED = frozenset({"/healthz", "/readyz"})
"""Also where too many requests are under way: a process that is busy must not be taken for a dead one."""

DESCRIPTION = """
Takes the turns of chat sessions and answers them one at a time per session, in the order they came, each once.

Errors are `application/problem+json`; their `type` is stable.
"""


def create_app(settings: Settings) -> FastAPI:
    """The ASGI application. Opens nothing before its lifespan starts, and needs neither Postgres nor SQS to start.

    Raises SettingsError where the process can't have the connections that the settings ask for.
    """
    bounds = find_bounds(getrlimit(RLIMIT_NOFILE)[0], settings.api_connections)
    connections = Connections(bounds.connections)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            databases = await _open_databases(settings, stack)
            queues = MessageQueues(settings)
            stack.push_async_callback(queues.close)
            redis = RedisClients.open(settings)
            stack.push_async_callback(redis.close)
            history = History(settings, databases.reads, redis.memory)
            stack.callback(history.close)
            sending = WakeUpSending(queues, list(settings.queues_by_name))
            hints = CancelHints(settings, redis)
            intake = Intake(settings, Submitting(settings, databases.submits, sending), hints)
            stack.push_async_callback(intake.close)
            watch = TurnWatch(settings, databases.reads, redis.memory)
            stack.push_async_callback(watch.close)
            app.state.backend = api.Backend(
                settings=settings,
                api_keys=ApiKeys(settings.api_keys),
                intake=intake,
                sending=sending,
                cancelling=Cancelling(databases.cancels, hints, sending),
                queues=queues,
                history=history,
                reads=databases.reads,
                lists=databases.lists,
                watch=watch,
                places=WatchPlaces(bounds.watches, shared=len({tenant for tenant, _ in settings.api_keys}) > 1),
                unauthorized=Tally("api.unauthorized"),
                probe=DatabaseProbe(databases.reads),
            )
            # Not waited for: an SQS that does not answer must not delay the start.
            report = asyncio.create_task(report_queues(queues, sending, list(settings.queues_by_name)))
            stack.callback(report.cancel)
            yield

    # No redirects to the path without a slash: a POST would come again, as another request.
    app = _Application(
        lambda: connections.being_answered > bounds.requests,
        title="Turnstile",
        version="1",
        description=DESCRIPTION.strip(),
        lifespan=lifespan,
        redirect_slashes=False,
    )
    for routes in (submit_routes.v1, api.v1, cancel_routes.v1, stream.v1):
        app.include_router(routes, dependencies=[Depends(refuse_unknown_parameters)], responses=openapi.problems(422))
    app.include_router(api.health)
    app.state.connections = connections
    error_handlers.install(app)
    openapi.describe(app)
    # The one added last is outermost.
    app.add_middleware(error_handlers.LastResort)
    app.add_middleware(ResponseHeaders)
    return app


def serve(settings: Settings) -> None:
    """Runs the API until SIGTERM or SIGINT, then finishes what it has begun and returns. A second SIGINT cuts it short.

    Raises AddressUnusableError, CertificateRefusedError, RegionMissingError, SettingsError.
    """
    logs.configure(settings)
    # Out of the application's start it would be a stack trace in the log.
    find_region(SqsOptions(settings.aws_region, settings.sqs_endpoint_url))
    asyncio.run(check_certificates(settings))
    app = create_app(settings)
    sockets = listen(settings.api_host, settings.api_port)
    server = Server(server_config(settings, app, app.state.connections), lambda: app.state.backend.watch.stop())
    spare_collector()
    asyncio.run(server.serve(sockets))


def server_config(settings: Settings, app: FastAPI, connections: Connections) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        app,
        http=connections.protocol,
        # An upgrade would take a connection out of the count.
        ws="none",
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        access_log=False,
        server_header=False,
        # Behind a load balancer the peer's address is its own; nothing here reads it.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        lifespan="on",
    )


@dataclass(frozen=True, slots=True)
class _Databases:
    """Connections apart: what waits for rows, or is slow, on one side keeps nobody waiting on another."""

    submits: Database
    cancels: Database
    reads: Database
    lists: Database


async def _open_databases(settings: Settings, stack: AsyncExitStack) -> _Databases:
    def database(name: str, size: int, *, pinned: bool = False, seconds: float = STATEMENT_TIMEOUT_SECONDS) -> Database:
        return Database(
            settings.database_url,
            name,
            size=size,
            pinned=pinned,
            wait_seconds=DATABASE_WAIT_SECONDS,
            statement_timeout_seconds=seconds,
            lock_timeout_seconds=ROW_WAIT_SECONDS,
        )

    opened = _Databases(
        submits=database("turnstile-api", HOT_CONNECTIONS, pinned=True),
        cancels=database("turnstile-api-cancels", cancelling.CONNECTIONS, pinned=True),
        reads=database("turnstile-api-reads", READ_CONNECTIONS, pinned=True),
        lists=database("turnstile-api-lists", LIST_CONNECTIONS, seconds=LIST_TIMEOUT_SECONDS),
    )
    for each in (opened.submits, opened.cancels, opened.reads, opened.lists):
        await stack.enter_async_context(each)
    return opened


class _Application(FastAPI):
    def __init__(self, is_full: Callable[[], bool], **described: Any) -> None:
        super().__init__(**described)
        self._is_full = is_full
        self._refused = Tally("api.requests_full")
        self._refuse = ResponseHeaders(problems.refuse_overload)
        self._submits = submit_routes.SubmitTurn(self.state)
        # Around it stands what stands around all other routes.
        self._submit = ResponseHeaders(error_handlers.LastResort(self._submits))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # In front of everything that FastAPI does for a request. It does none of it for these.
        if scope["type"] == "http" and self._is_full() and scope["path"] not in ALWAYS_ANSWERED:
            self._refused.note()
            await self._refuse(scope, receive, send)
        elif scope["type"] == "http" and self._submits.takes(scope):
            await self._submit(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
