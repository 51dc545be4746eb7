"""`pytest --stack=...`: what this run stands on, whether that is there, and what can't be tested on it.

embedded     servers of this machine, from packages (the default)
containers   Testcontainers; the run does not begin without a Docker engine
aws          SQS as the environment names it, with Postgres and Redis from the embedded stack; costs money (CONTRIBUTING.md)

`--postgres=15` takes the Postgres of that version from this machine's packages, in place of the embedded one.

A test that can't run on one of them says so: @pytest.mark.not_on("containers", "why"). The summary lists these with their
reasons.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Any, assert_never

import pytest

from tests.support.given_queues import VARIABLE, find_given_queues
from tests.support.stacks.aws import AwsStack, give_back
from tests.support.stacks.packaged import EMBEDDED, find_packaged, maker_of
from tests.support.stacks.stack import Stack
from turnstile.dev.stack.postgres import Postgres
from turnstile.dev.stack.stack import LocalStack, temporary


class Kind(StrEnum):
    EMBEDDED = "embedded"
    CONTAINERS = "containers"
    AWS = "aws"


ENGINE = pytest.StashKey[str]()
VERSIONS = pytest.StashKey[str]()
"""The servers that answered, with their versions; the tests' processes send it to the one that reports."""


def kind_of(config: pytest.Config) -> Kind:
    return Kind(config.getoption("--stack"))


def running_stack(config: pytest.Config) -> AbstractContextManager[Stack]:
    """A stack of a test process's own, gone after it."""
    match kind_of(config):
        case Kind.EMBEDDED:
            return _embedded(config)
        case Kind.AWS:
            return _aws(config)
        case Kind.CONTAINERS:
            return _containers(config)
        case other:
            assert_never(other)


@contextmanager
def _embedded(config: pytest.Config) -> Iterator[LocalStack]:
    version = config.getoption("--postgres")
    make_postgres = Postgres if version == EMBEDDED else maker_of(find_packaged()[int(version)])
    with temporary(durable=False, make_postgres=make_postgres) as stack:
        config.stash[VERSIONS] = ", ".join(f"{name} {status.version}" for name, status in stack.status().items())
        yield stack


@contextmanager
def _aws(config: pytest.Config) -> Iterator[Stack]:
    given = find_given_queues()
    assert given, "pytest_configure has looked"
    with _embedded(config) as local:
        yield AwsStack(local)
        give_back(given)


@contextmanager
def _containers(config: pytest.Config) -> Iterator[Stack]:
    from tests.support.stacks.containers import container_stack

    with container_stack() as stack:
        config.stash[VERSIONS] = stack.versions()
        yield stack


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stack", choices=[*Kind], default=Kind.EMBEDDED, help="what the tests run on: %(choices)s [%(default)s]"
    )
    parser.addoption(
        "--postgres",
        choices=[EMBEDDED, *map(str, find_packaged())],
        default=EMBEDDED,
        help="the Postgres of the stack, by the version of this machine's package: %(choices)s [%(default)s]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuses the run, in one line, where what it was asked to stand on is not there."""
    # The processes that xdist starts get the same option, and need not look again.
    if hasattr(config, "workerinput"):
        return
    kind = kind_of(config)
    if kind is Kind.CONTAINERS and config.getoption("--postgres") != EMBEDDED:
        raise pytest.UsageError("--stack=containers: it has a Postgres of its own, so without --postgres")
    match kind:
        case Kind.EMBEDDED:
            pass
        case Kind.CONTAINERS:
            # Here, because half a second is much for runs that need none of it.
            from tests.support.stacks.containers import NoEngineError, build_emulator, find_engine

            try:
                config.stash[ENGINE] = find_engine()
                build_emulator()
            except NoEngineError as error:
                raise pytest.UsageError(f"--stack=containers: {error}; without one: make test") from error
        case Kind.AWS:
            if find_given_queues() is None:
                raise pytest.UsageError(f"--stack=aws: {VARIABLE} names no file of queues (CONTRIBUTING.md)")
            if config.getoption("numprocesses", default=None):
                raise pytest.UsageError("--stack=aws: all tests share the queues, so without -n")
        case other:
            assert_never(other)


def pytest_report_header(config: pytest.Config) -> str:
    engine = config.stash.get(ENGINE, "")
    return f"stack: {kind_of(config)}{f' ({engine})' if engine else ''}"


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what can't run on this stack, with its reason; on containers, also what needs no stack."""
    kind = kind_of(config)
    if kind is Kind.CONTAINERS:
        needless = [item for item in items if "stack" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=needless)
        items[:] = [item for item in items if item not in needless]
    for item in items:
        for marker in item.iter_markers("not_on"):
            where, reason = marker.args
            if Kind(where) is kind:
                item.add_marker(pytest.mark.skip(reason=f"{_prefix(kind)}{reason}"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the reporting process what answered here."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["versions"] = session.config.stash.get(VERSIONS, "")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if versions := getattr(node, "workeroutput", {}).get("versions"):
        node.config.stash[VERSIONS] = versions


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was tested against, and what was not."""
    kind = kind_of(config)
    prefix = _prefix(kind)
    reasons = Counter(
        report.longrepr[2].removeprefix(f"Skipped: {prefix}")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple) and report.longrepr[2].startswith(f"Skipped: {prefix}")
    )
    if versions := config.stash.get(VERSIONS, ""):
        engine = config.stash.get(ENGINE, "")
        terminalreporter.write_line(f"stack: {kind}{f', {engine}' if engine else ''}: {versions}")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{prefix}{count} tests: {reason}")


def _prefix(kind: Kind) -> str:
    return f"not on {kind}: "
