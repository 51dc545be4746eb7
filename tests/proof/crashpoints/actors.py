"""The processes of a cell: forked from one that has imported everything, so that each costs milliseconds to start.

An actor is forked before its cell has a thread or a connection, waits for its part on a pipe, and then plays it with the
product's own code: a worker, a relay, an API's intake, a redrive. It reports on another pipe where it is.
"""

import asyncio
import json
import os
import secrets
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.proof.chaos.handler_evidence import RUNS
from tests.proof.crashpoints.passing import FaultKind, Plan, Strike, arm
from tests.proof.crashpoints.terms import TENANT

EXIT_BROKEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    role: str
    settings: dict[str, Any]
    folder: str
    strikes: tuple[Strike, ...] = ()
    requests: tuple[dict[str, Any], ...] = ()
    """intake: tenant, session, key and body of each submit."""
    rate: float | None = None
    """redrive: turns a second."""
    announce: tuple[str, ...] = ()
    """Points whose first passing it reports."""


@dataclass(slots=True)
class Actor:
    """One forked process, as its director sees it."""

    pid: int
    orders: int
    report: int
    role: str = ""
    started_at: float = 0.0
    code: int | None = None
    ended_at: float = 0.0
    meant: bool = False
    _rest: bytes = b""
    news: list[dict[str, Any]] = field(default_factory=list)

    def play(self, part: Part) -> None:
        self.role, self.started_at = part.role, time.time()
        os.write(self.orders, json.dumps(asdict(part)).encode() + b"\n")
        os.close(self.orders)

    def listen(self, seconds: float) -> None:
        """Takes in its news; waits up to `seconds` for some."""
        if not select.select([self.report], [], [], seconds)[0]:
            return
        if not (said := os.read(self.report, 65536)):
            # It has ended: nothing more is to be heard.
            self.alive()
            select.select([], [], [], seconds)
            return
        *lines, self._rest = (self._rest + said).split(b"\n")
        self.news += [json.loads(line) for line in lines]

    def alive(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code, self.ended_at = os.waitstatus_to_exitcode(status), time.time()
        return self.code is None

    def signal(self, number: signal.Signals) -> None:
        if self.alive():
            self.meant = self.meant or number in (signal.SIGKILL, signal.SIGTERM)
            os.kill(self.pid, number)

    def kill(self) -> None:
        if self.alive():
            self.signal(signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.code, self.ended_at = os.waitstatus_to_exitcode(status), time.time()


def fork_actor(siblings: Sequence[Actor] = ()) -> Actor:
    """A process that waits for its part. To be called before the caller has threads or connections."""
    orders_in, orders_out = os.pipe()
    report_in, report_out = os.pipe()
    pid = os.fork()
    if pid:
        os.close(orders_in)
        os.close(report_out)
        return Actor(pid, orders_out, report_in)
    # An end that stayed open here would keep a sibling waiting after their director is gone.
    for end in (orders_out, report_in, *(end for one in siblings for end in (one.orders, one.report))):
        os.close(end)
    code = EXIT_BROKEN
    try:
        with os.fdopen(orders_in) as orders:
            line = orders.readline()
        code = _play(Part(**_with_strikes(json.loads(line))), report_out) if line else 0
    except BaseException as error:
        # As a line of the log, like the command line's own: it says why a planted bug ended the process.
        said = {"event": "actor.ended", "level": "warning", "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said | {"where": traceback.format_exc()}), file=sys.stderr)
    sys.stderr.flush()
    os._exit(code)


def _with_strikes(part: dict[str, Any]) -> dict[str, Any]:
    strikes = tuple(Strike(**{**strike, "fault": FaultKind(strike["fault"])}) for strike in part["strikes"])
    return {**part, "strikes": strikes, "announce": tuple(part["announce"])}


def _play(part: Part, report: int) -> int:
    from turnstile.config.settings import Settings
    from turnstile.process import logs

    folder = Path(part.folder)
    (folder / "logs").mkdir(exist_ok=True)
    log = os.open(folder / "logs" / f"{part.role}-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    settings = Settings(**part.settings)
    os.environ[RUNS] = str(folder / "runs.jsonl")
    logs.configure(settings)
    plan = Plan(list(part.strikes), report, _flusher(settings), part.announce)
    if part.strikes or part.announce:
        arm(plan)
    return _ROLES[part.role](part, settings, plan)


def _flusher(settings: Any) -> Callable[[], None]:
    """Deletes the cell's keys, as a flush would; those of other cells stay."""

    def flush() -> None:
        import redis

        with redis.Redis.from_url(settings.redis_url) as client:
            if keys := list(client.scan_iter(f"{settings.redis_prefix}*", count=1000)):
                client.delete(*keys)

    return flush


def _worker(part: Part, settings: Any, plan: Plan) -> int:
    from turnstile.worker.worker_process import serve

    return serve(settings)


def _relay(part: Part, settings: Any, plan: Plan) -> int:
    from turnstile.relay.relay_process import run_relay

    asyncio.run(run_relay(settings, None))
    return 0


def _intake(part: Part, settings: Any, plan: Plan) -> int:
    asyncio.run(_take_in(part, settings, plan))
    return 0


async def _take_in(part: Part, settings: Any, plan: Plan) -> None:
    from turnstile.backends.postgres.database import Database
    from turnstile.message_queue import MessageQueues
    from turnstile.process.redis_clients import RedisClients
    from turnstile.producer.app import SUBMIT_CONNECTIONS
    from turnstile.producer.session_gate import SessionGate
    from turnstile.producer.submit_intake import Intake
    from turnstile.streaming.cancel_hints import CancelHints
    from turnstile.submission.commit_then_wake import Submitting
    from turnstile.submission.turn_request import RANDOM_BITS, read_submission
    from turnstile.submission.wake_ups import WakeUpSending

    async def submit(intake: Intake, number: int, request: dict[str, Any]) -> None:
        try:
            submission = read_submission(
                settings,
                request["tenant"],
                request["session"],
                json.dumps(request["body"]).encode(),
                key=request["key"],
                now=datetime.now(UTC),
                random_bits=secrets.randbits(RANDOM_BITS),
            )
            accepted = await intake.accept(submission)
        except Exception as error:
            # A client sees 500 or 503.
            plan.report(request=number, refused=f"{type(error).__name__}: {error}")
        else:
            plan.report(request=number, turn_id=str(accepted.turn_id))

    queues = MessageQueues(settings)
    try:
        async with Database(settings.database, "turnstile-api", size=SUBMIT_CONNECTIONS, pinned=True) as database:
            sending = WakeUpSending(queues, list(settings.queues_by_name))
            hints = CancelHints(settings, RedisClients.open(settings))
            intake = Intake(settings, Submitting(settings, database, sending), hints, SessionGate(), shared=False)
            await asyncio.gather(*(submit(intake, *numbered) for numbered in enumerate(part.requests)))
    finally:
        await queues.close()


def _application(part: Part, settings: Any, plan: Plan) -> int:
    asyncio.run(_commit_each(part, settings, plan))
    return 0


async def _commit_each(part: Part, settings: Any, plan: Plan) -> None:
    """Commits each request in a transaction of its own, on each kind of connection in turn."""
    import psycopg
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    from turnstile.submission.callers_transaction import Submitter

    submitter = Submitter(settings)
    engine = create_async_engine(settings.database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    for number, request in enumerate(part.requests):
        whose = {"tenant": request["tenant"], "key": request["key"]}
        try:
            where: Any = (
                AsyncSession(engine) if number % 2 else await psycopg.AsyncConnection.connect(settings.database_url)
            )
            async with where:
                submitted = await submitter.submit(where, request["session"], request["body"]["input"], **whose)
                await where.commit()
        except Exception as error:
            # Its transaction is rolled back.
            plan.report(request=number, refused=f"{type(error).__name__}: {error}")
        else:
            plan.report(request=number, turn_id=str(submitted.id))
    await engine.dispose()


def _redrive(part: Part, settings: Any, plan: Plan) -> int:
    asyncio.run(_put_back(part, settings, plan))
    return 0


async def _put_back(part: Part, settings: Any, plan: Plan) -> None:
    from turnstile.message_queue import MessageQueues
    from turnstile.ops.dead_letters.failed_turns import FailedFilter, list_failed
    from turnstile.ops.dead_letters.redrive import Pace, Redrive
    from turnstile.ops.terminal.operator_access import operator_database

    queues = MessageQueues(settings)
    wanted = FailedFilter(queue=settings.queue)
    try:
        async with operator_database(settings) as database:
            redrive = Redrive(database, queues, settings, requested_by="the matrix")
            result = await redrive.run(wanted, await list_failed(database, wanted), Pace(rate=part.rate))
            plan.report(revived=[str(turn_id) for turn_id in result.revived])
    finally:
        await queues.close()


def _erase(part: Part, settings: Any, plan: Plan) -> int:
    asyncio.run(_ask_to_erase(settings, plan))
    return 0


async def _ask_to_erase(settings: Any, plan: Plan) -> None:
    from turnstile.backends.postgres.database import Database
    from turnstile.message_queue import MessageQueues
    from turnstile.process.redis_clients import RedisClients
    from turnstile.producer import cancel_intake
    from turnstile.producer.session_gate import SessionGate
    from turnstile.streaming.cancel_hints import CancelHints
    from turnstile.submission.wake_ups import WakeUpSending

    queues, redis = MessageQueues(settings), RedisClients.open(settings)
    hints, sending = CancelHints(settings, redis), WakeUpSending(queues, list(settings.queues_by_name))
    connections = cancel_intake.CONNECTIONS
    try:
        async with Database(settings.database, "turnstile-api-cancels", size=connections, pinned=True) as database:
            gate = SessionGate(cancel_intake.LANES, shared=False)
            await cancel_intake.Cancelling(database, hints, sending, gate).erase_session(
                TENANT, "a", "key of the matrix"
            )
    except Exception as error:
        # A client sees 500 or 503.
        plan.report(refused=f"{type(error).__name__}: {error}")
    else:
        plan.report(erased=True)
    finally:
        await queues.close()
        await redis.close()


_ROLES: dict[str, Callable[[Part, Any, Plan], int]] = {
    "worker": _worker,
    "relay": _relay,
    "api": _intake,
    "application": _application,
    "redrive": _redrive,
    "erase": _erase,
}
