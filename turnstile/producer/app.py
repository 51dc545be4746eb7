"""The composition root of the API: opens the resources in order and configures the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from resource import RLIMIT_NOFILE, getrlimit

import aiohttp
import uvicorn
from fastapi import Depends, FastAPI

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.table_version import READ_VERSION
from turnstile.backends.sqs.sqs_client import SqsClient
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.process import logs
from turnstile.process.database_role import connecting_as
from turnstile.process.gc_tuning import spare_collector
from turnstile.process.metrics_export import exporting_metrics
from turnstile.process.redis_clients import RedisClients
from turnstile.process.startup_check import check_servers
from turnstile.producer import batch_intake, cancel_intake, session_gate, submit_intake
from turnstile.producer.backend import Backend
from turnstile.producer.batch_intake import BatchIntake
from turnstile.producer.cancel_intake import Cancelling
from turnstile.producer.credentials.credentials import Credentials
from turnstile.producer.credentials.issuer_keys import IssuerKeys
from turnstile.producer.credentials.jwts import Jwts
from turnstile.producer.credentials.use_log import UseLog
from turnstile.producer.entrance import Entrance
from turnstile.producer.http.client_connections import Connections
from turnstile.producer.http.connection_bounds import find_bounds
from turnstile.producer.http.pages import allow_pages
from turnstile.producer.http.parameters import refuse_unknown_parameters
from turnstile.producer.http.problems import Kind
from turnstile.producer.http.refused_keys import RefusedKeys
from turnstile.producer.http.request_metrics import RequestMetrics
from turnstile.producer.rates.rate_limits import open_rate_limits
from turnstile.producer.routes import (
    batch_route,
    cancel_route,
    chat_route,
    docs_page,
    erase_route,
    error_handlers,
    openapi,
    session_routes,
    session_stream_route,
    stream_route,
    submit_route,
    token_route,
    turn_routes,
)
from turnstile.producer.routes.health_routes import health, readiness_of
from turnstile.producer.routes.session_limit import keep_in_session
from turnstile.producer.server import Server, listen
from turnstile.producer.session_gate import SessionGate
from turnstile.producer.sharing.fair_lanes import FairPool
from turnstile.producer.sharing.fair_places import FairPlaces
from turnstile.producer.sharing.open_turn_caps import OpenTurnCaps
from turnstile.producer.sharing.seen_tenants import SeenTenants
from turnstile.producer.submit_intake import Intake
from turnstile.producer.watch.session_watch import SessionWatch
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.streaming.cancel_hints import CancelHints
from turnstile.streaming.stream import EventReader
from turnstile.submission.commit_then_wake import Submitting
from turnstile.submission.turn_batch import TurnBatch
from turnstile.submission.turn_request import TurnRequest
from turnstile.submission.wake_ups import WakeUpSending
from turnstile.telemetry import tracing
from turnstile.telemetry.own_log import log

SUBMIT_CONNECTIONS = submit_intake.LANES + batch_intake.LANES + session_gate.LANES + session_gate.LOCKED_LANES
"""One for each submit statement that may run at a time, so that none waits for a connection."""
READ_LANES = 5
READ_CONNECTIONS = READ_LANES + 4
"""One for each of the three reads that all streams and waits share, and one for the readiness check: these wait for no tenant.
The counts of open turns use them, too, once a second."""
LIST_CONNECTIONS = 2
LIST_TIMEOUT_SECONDS = 2
"""Statement timeout of a list. A list scans all turns that its filter skips, so lists have a few connections of their own: slow
lists must not block reads of single turns."""
LIST_WAIT_SECONDS = LIST_TIMEOUT_SECONDS + 1
"""Longest wait of a list for a connection. Longer than the lists before it may take: then the next line has its turn."""
KEY_CONNECTIONS = 3
"""One for the keys that the process knows, one for those that it does not know and for notes of their use, one for new tokens."""
KEY_SECONDS = 2
"""Statement timeout of a read of keys: every request may wait for one."""
DATABASE_WAIT_SECONDS = 1.5
"""Longest wait for a database connection. A submit waits at most twice before it responds with 503."""
MOST_WAITING = 1000
"""Calls that read, or wait for a connection of one pool. More would wait too long, and each uses memory."""

ROW_WAIT_SECONDS = 2
"""Lock timeout for a row that is locked by another transaction. A locked session can delay other submits this long, once."""

GRACE_SECONDS = 15
"""Time from the first signal until the server aborts open requests."""

KEEP_ALIVE_SECONDS = 130
"""Idle timeout of a connection. Longer than the load balancer's (120 s in `infra/`): if the server closes first, a request in
flight gets no response. uvicorn's default of 5 s loses requests behind any load balancer."""

HEADERS = [("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store")]
"""Headers of every response of the application: caches must not store conversations, and browsers must treat JSON only
as JSON."""

DESCRIPTION = """
Accepts the turns of chat sessions. Each is answered once, in the order of arrival, one at a time
per session.

Errors are `application/problem+json`; their `type` is stable.
"""


def create_app(settings: Settings, traces: tracing.Traces = None) -> FastAPI:
    """The ASGI application. Opens nothing before its lifespan starts, and needs neither Postgres nor SQS to start.

    Raises SettingsError if the process may not open as many connections as the settings ask for, or for the keys of contents.
    """
    contents = read_contents(settings)
    bounds = find_bounds(getrlimit(RLIMIT_NOFILE)[0], settings.api_connections)
    connections = Connections(bounds.connections)
    shared = SeenTenants(tenant for tenant, _ in settings.api_keys)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            pool = partial(
                Database,
                settings.database,
                wait_seconds=DATABASE_WAIT_SECONDS,
                lock_timeout_seconds=ROW_WAIT_SECONDS,
                first=READ_VERSION,
                contents=contents,
                names_tenants=True,
            )
            # Pools of their own: a row lock or a slow statement in one pool does not delay the others.
            submits = await stack.enter_async_context(pool("turnstile-api", size=SUBMIT_CONNECTIONS, pinned=True))
            cancels = await stack.enter_async_context(
                pool("turnstile-api-cancels", size=cancel_intake.CONNECTIONS, pinned=True)
            )
            reads = await stack.enter_async_context(pool("turnstile-api-reads", size=READ_CONNECTIONS, pinned=True))
            lists = await stack.enter_async_context(
                pool("turnstile-api-lists", size=LIST_CONNECTIONS, statement_timeout_seconds=LIST_TIMEOUT_SECONDS)
            )
            keys = await stack.enter_async_context(
                pool(
                    "turnstile-api-keys",
                    size=KEY_CONNECTIONS,
                    statement_timeout_seconds=KEY_SECONDS,
                    patience_seconds=KEY_SECONDS + 1,
                )
            )
            queues = MessageQueues(settings, traces=traces)
            stack.push_async_callback(queues.close)
            redis = RedisClients.open(settings)
            stack.push_async_callback(redis.close)
            submit_intake.begin_metrics(settings.queues_by_name)
            sending = WakeUpSending(queues, list(settings.queues_by_name))
            submitting = Submitting(settings, submits, sending, traces)
            hints = CancelHints(settings, redis)
            watch = TurnWatch(settings, reads, redis.memory)
            stack.push_async_callback(watch.close)
            jwts = None
            if settings.jwt is not None:
                http = await stack.enter_async_context(aiohttp.ClientSession())
                jwts = Jwts(settings.jwt, IssuerKeys(settings.jwt.jwks_url, http))
            use_log = UseLog()
            stack.callback(use_log.close)
            refused_keys = RefusedKeys(reads)
            stack.push_async_callback(refused_keys.close)
            rates = open_rate_limits(settings) if settings.rates else None
            if rates is not None:
                stack.push_async_callback(rates.close)
            gate = SessionGate(shared=shared)
            intake = Intake(settings, submitting, hints, gate, shared=shared, caps=_caps(settings, reads))
            app.state.backend = Backend(
                settings=settings,
                credentials=Credentials(settings.api_keys, keys, may_be_open=settings.may_be_open, jwts=jwts),
                use_log=use_log,
                tenants=shared,
                rates=rates,
                intake=intake,
                batches=BatchIntake(intake, submitting, gate, rates, shared=shared),
                sending=sending,
                cancelling=Cancelling(cancels, hints, sending, SessionGate(cancel_intake.LANES, shared=shared)),
                queues=queues,
                requests=FairPlaces(bounds.requests, "requests in progress", shared=shared),
                reads=FairPool(
                    reads, READ_LANES, DATABASE_WAIT_SECONDS, FairPlaces(MOST_WAITING, "reads", shared=shared)
                ),
                tokens=FairPool(keys, 1, DATABASE_WAIT_SECONDS, FairPlaces(MOST_WAITING, "tokens", shared=shared)),
                lists=FairPool(
                    lists, LIST_CONNECTIONS, LIST_WAIT_SECONDS, FairPlaces(MOST_WAITING, "lists", shared=shared)
                ),
                events=EventReader(redis.memory, contents),
                watch=watch,
                sessions=SessionWatch(settings, reads, watch),
                places=FairPlaces(bounds.watches, "streams and waits", shared=shared, kind=Kind.TOO_MANY_STREAMS),
                refused_keys=refused_keys,
                is_ready=readiness_of(reads),
            )
            yield

    app = FastAPI(
        title="Turnstile",
        version="1",
        description=DESCRIPTION.strip(),
        lifespan=lifespan,
        # No redirect to the path without a slash: the client would send a POST twice.
        redirect_slashes=False,
        # `openapi.describe` and `docs_page` have these: FastAPI's pages load their scripts from another host.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    if settings.serves_docs:
        app.include_router(docs_page.routes)
        openapi.serve(app)
    for routes in (
        submit_route,
        turn_routes,
        session_routes,
        cancel_route,
        erase_route,
        stream_route,
        chat_route,
        session_stream_route,
        token_route,
    ):
        app.include_router(
            routes.v1,
            dependencies=[Depends(refuse_unknown_parameters), Depends(keep_in_session)],
            responses=openapi.problems(414, 422, 431),
        )
    # It names no session in its path, and keeps each of its turns in the session of the caller's token.
    app.include_router(
        batch_route.v1,
        dependencies=[Depends(refuse_unknown_parameters)],
        responses=openapi.problems(414, 422, 431),
    )
    app.include_router(health)
    app.state.connections = connections
    error_handlers.install(app)
    openapi.describe(app, TurnRequest, TurnBatch, token_route.TokenRequest)
    app.add_middleware(Entrance, state=app.state, submits=submit_route.SubmitTurn(app.state))
    app.add_middleware(error_handlers.LastResort)
    if settings.api_cors_origins:
        allow_pages(app, settings.api_cors_origins)
    app.add_middleware(RequestMetrics)
    return app


def _caps(settings: Settings, reads: Database) -> OpenTurnCaps | None:
    per_tenant, per_session = settings.tenant_open_turns, settings.session_open_turns
    if per_tenant is None and per_session is None:
        return None
    return OpenTurnCaps(reads, per_tenant=per_tenant, per_session=per_session)


def serve(settings: Settings) -> None:
    """Runs the API until SIGTERM or SIGINT, then finishes open requests and returns. A second SIGINT skips the wait.

    Raises AddressUnusableError, and SettingsError of several kinds.
    """
    settings = connecting_as(settings, "api")
    logs.configure(settings)
    # Checked here, because an error during the application's start would be a stack trace in the log.
    SqsClient.open(settings.aws_region, settings.sqs_endpoint_url)
    asyncio.run(check_servers(settings))
    if settings.api_serves_strangers_without_keys:
        log.warning("api.serves_strangers", host=settings.api_host)
    traces = tracing.start("turnstile-api", wanted=settings.exports_traces)
    app = create_app(settings, traces)
    sockets = listen(settings.api_host, settings.api_port)
    server = Server(server_config(settings, app, app.state.connections), lambda: app.state.backend.watch.stop())
    spare_collector()
    try:
        with exporting_metrics(settings, "api"):
            asyncio.run(server.serve(sockets))
    finally:
        tracing.flush(traces)


def server_config(settings: Settings, app: FastAPI, connections: Connections) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connections.protocol,
        # A WebSocket upgrade would remove the connection from the count.
        ws="none",
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        access_log=False,
        server_header=False,
        headers=HEADERS,
        # Behind a load balancer, the peer address is the load balancer's; nothing here reads it.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        lifespan="on",
    )
