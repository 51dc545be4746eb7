"""The servers of a run (Postgres and Redis of the embedded stack, the emulator), and a room for each measurement."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import redis

from bench.accounting import Tree
from bench.emulated_sqs import EmulatedSqs, start_emulator
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.dev.stack.processes import plain_environment
from turnstile.dev.stack.sqs import REGION
from turnstile.dev.stack.stack import LocalStack, temporary
from turnstile.ops.migration_run import apply

ROOT = Path(__file__).parents[1]
VISIBILITY_SECONDS = 60
TEMPLATE = "template_bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where one contender is measured once: an empty, migrated database and a queue, without what others left behind."""

    folder: Path
    database_url: str
    redis_url: str
    queue: str
    queue_url: str
    sqs_address: str

    @property
    def record(self) -> Path:
        """Where handlers note that they began."""
        return self.folder / "starts"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def environment(self, slots: int, sleep_seconds: float) -> dict[str, str]:
        return plain_environment(
            DATABASE_URL=self.database_url,
            REDIS_URL=self.redis_url,
            AWS_ENDPOINT_URL_SQS=self.sqs_address,
            AWS_REGION=REGION,
            AWS_DEFAULT_REGION=REGION,
            AWS_ACCESS_KEY_ID="local",
            AWS_SECRET_ACCESS_KEY="local",  # noqa: S106 - the emulator checks no key
            AWS_EC2_METADATA_DISABLED="true",
            PYTHONPATH=str(ROOT),
            BENCH_QUEUE=self.queue,
            BENCH_QUEUE_URL=self.queue_url,
            BENCH_RECORD=str(self.record),
            BENCH_SLOTS=str(slots),
            BENCH_SLEEP_SECONDS=str(sleep_seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the rooms of a run have in common."""

    folder: Path
    stack: LocalStack
    sqs: EmulatedSqs
    postgres: Tree
    redis: Tree

    @contextmanager
    def room(self, tag: str) -> Iterator[Room]:
        """A room that is gone after the block; its folder stays if the block has failed, to show why."""
        name = f"{tag}-{uuid4().hex[:8]}".replace("_", "-")
        folder = self.folder / name
        folder.mkdir(parents=True)
        database = name.replace("-", "_")
        with redis.Redis.from_url(self.stack.redis.url) as client:
            # In the background: what two million turns have left takes Redis longer than it is waited for.
            client.flushall(asynchronous=True)
        url = self.stack.postgres.create_database(database, template=TEMPLATE)
        self.sqs.create_queue(f"{name}-dlq", VISIBILITY_SECONDS)
        try:
            room = Room(
                folder=folder,
                database_url=url,
                redis_url=self.stack.redis.url,
                queue=name,
                queue_url=self.sqs.create_queue(name, VISIBILITY_SECONDS),
                sqs_address=self.sqs.address,
            )
            room.record.touch()
            yield room
            shutil.rmtree(folder)
        finally:
            self.stack.postgres.drop_database(database)


@contextmanager
def open_stage(folder: Path, stack: LocalStack | None = None) -> Iterator[Stage]:
    """Sets the stage on `stack`, or on one of its own that is gone afterwards."""
    with ExitStack() as exits:
        # Durable: with fsync, as in production, or a contender that commits once a message would look too good.
        running = stack or exits.enter_context(temporary())
        if stack is None:
            running.sqs.stop()
        url = running.postgres.create_database(TEMPLATE)
        exits.callback(running.postgres.drop_database, TEMPLATE)
        apply(DatabasePlace(url), "head", down=False, sql=False)
        sqs = exits.enter_context(start_emulator(folder / "emulator.log"))
        yield Stage(
            folder=folder,
            stack=running,
            sqs=sqs,
            postgres=_tree(running.postgres.process.pid()),
            redis=_tree(running.redis.process.pid()),
        )


def _tree(pid: int | None) -> Tree:
    if pid is None:
        raise RuntimeError("the embedded stack is not running")
    return Tree.of(pid)
