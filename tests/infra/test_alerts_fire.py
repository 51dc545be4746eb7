"""Each Prometheus rule fires in the fault that it names, in the time that its runbook says, and rests in the neighbours."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.infra.alert_days import (
    API,
    BEGINS,
    EVERY,
    QUEUE,
    WORKER,
    Happening,
    backlog,
    busy_locks,
    fails,
    holds,
    live,
    one_hold,
    ordinary,
    responds,
    skipped_locks,
    slow_locks,
    standstill,
    traffic,
)
from tests.infra.promql import evaluate, first_alert
from tests.infra.promtool import agreed
from turnstile.telemetry import metrics as m

FILE = ROOT / "infra/prometheus/alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["labels"]["alarm"]: rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]
}
MINUTE, HOUR = 60, 3600


def gauge(instrument: m.Gauge, value: float, *labels: str) -> Happening:
    """An ordinary day on which one gauge gets this value."""

    def happening(now: int) -> None:
        ordinary(now)
        if now == 0:
            instrument.set(value, *(labels or (QUEUE,)))

    return happening


def counter(instrument: m.Counter, *labels: str, once: bool = True, amount: float = 1.0) -> Happening:
    """An ordinary day on which something is counted: once, or between all scrapes."""

    def happening(now: int) -> None:
        ordinary(now)
        if now == 0 or (now > 0 and not once):
            instrument.add(amount, *(labels or (QUEUE,)))

    return happening


# --- turns


def sqs_stops(now: int) -> None:
    """No message comes; relays say what waits."""
    if now < 0:
        ordinary(now)
        return
    traffic(turns=0, received=0)
    fails("sqs")
    backlog(now, due=now, ready=now // 2, oldest=now)
    standstill(now, now)


def provider_refuses(now: int) -> None:
    """Every attempt is put off, and each session has one turn: none is due behind another."""
    if now < 0:
        ordinary(now)
        return
    traffic(turns=0, put_off=5)
    backlog(now, due=0, ready=0)
    standstill(now, now)


def handlers_hang(now: int) -> None:
    if now < 0:
        ordinary(now)
        return
    traffic(turns=0, received=0)
    backlog(now, due=now, ready=now, oldest=now)
    standstill(now, now)


def waits_while_paused(now: int) -> None:
    traffic(turns=0, received=0)
    backlog(now, due=50, ready=50)
    m.QUEUE_PAUSED.set(1, QUEUE)


def resumed(now: int) -> None:
    """After a pause of ten minutes: a relay may look before a worker has heard of its end."""
    ordinary(now)
    standstill(now, 600 * (now == 0))


def flood(now: int) -> None:
    ordinary(now)
    backlog(now, due=10_000, ready=9_000, oldest=30.0)


def drain(now: int) -> None:
    """For half an hour, of a backlog of long sessions: most messages find theirs taken."""
    if 0 <= now < 30 * MINUTE:
        traffic(turns=60, received=90, locked=60, busy=30)
        backlog(now, due=9_000 - 5 * now, ready=100, oldest=200.0)
    else:
        ordinary(now)


# --- messages and processes


def quiet_night(now: int) -> None:
    traffic(turns=0, received=0, submitted=0, locked=0)


def worker_alone_refused(now: int) -> None:
    """The credentials of the workers have expired (`tests/telemetry/test_backend_health.py`)."""
    ordinary(now)
    if now >= 0:
        fails("sqs")


def one_failed_call(*backends: str) -> Happening:
    """Then nobody calls for the rest of the night: `up` stays as the call has left it."""

    def happening(now: int) -> None:
        quiet_night(now)
        if now == 0:
            fails(*backends)

    return happening


def restart_of(*backends: str, seconds: int = 20) -> Happening:
    def happening(now: int) -> None:
        away = 0 <= now <= seconds
        traffic(refused=10 * away, unguarded=60 * away)
        if away:
            fails(*backends, calls=30)
        else:
            responds(*backends)

    return happening


def restart_of_postgres_at_night(now: int) -> None:
    """Nine seconds of 503; then no client comes."""
    quiet_night(now)
    if now in (0, EVERY):
        fails("postgres", calls=20)


def outage_of(*backends: str) -> Happening:
    def happening(now: int) -> None:
        ordinary(now)
        if now >= 0:
            fails(*backends)

    return happening


def flapping_redis(now: int) -> None:
    """A lock command in each minute or so."""
    ordinary(now)
    if now >= 0 and now % MINUTE == 0:
        fails("redis_lock")
        responds("redis_lock")


def relay_stops_reporting(now: int) -> None:
    if now < 0:
        ordinary(now)
    else:
        traffic()
        if now == 0:
            m.BACKLOG.forget()


def relay_step_fails(now: int) -> None:
    ordinary(now)
    m.RELAY_STEPS_FAILED.add(now == 0)


def down(job: str, *, seconds: int) -> Happening:
    def happening(now: int) -> Sequence[str]:
        ordinary(now)
        return [job] if 0 <= now < seconds else []

    return happening


def refusals(share: int, *, requests: int = 100) -> Happening:
    def happening(now: int) -> None:
        refused = requests * share // 100 if now >= 0 else 0
        traffic(submitted=requests - refused, refused=refused)
        backlog(now, due=4, ready=2)

    return happening


def halted_for(seconds: float) -> Happening:
    def happening(now: int) -> None:
        ordinary(now)
        m.SESSIONS_HALTED.set(1, QUEUE)
        m.SESSIONS_HALTED_SECONDS.set(seconds, QUEUE)

    return happening


def unexplained(now: int) -> None:
    ordinary(now)
    m.DEAD_LETTERS_EXPECTED.set(3, QUEUE)
    m.DLQ_MESSAGES.set(4 if now >= 0 else 3, QUEUE)


def too_many_to_explain(now: int) -> None:
    ordinary(now)
    m.DEAD_LETTERS_EXPECTED.set(math.nan, QUEUE)
    m.DLQ_MESSAGES.set(20_000, QUEUE)


def untouched(now: int) -> None:
    ordinary(now)
    m.DLQ_MESSAGES.set(1, QUEUE)
    m.DLQ_UNTOUCHED.set(86_401 if now >= 0 else 0, QUEUE)


def of_state(state: str) -> Happening:
    return gauge(m.WORKERS, 1, QUEUE, state)


FAULTS: list[tuple[str, Happening, int]] = [
    ("turn-failed", gauge(m.FAILED_TURNS, 1), MINUTE),
    ("session-halted", gauge(m.SESSIONS_HALTED, 1), MINUTE),
    ("session-still-halted", gauge(m.SESSIONS_HALTED_SECONDS, 1801), MINUTE),
    ("dlq-untouched", untouched, 6 * MINUTE),
    ("oldest", sqs_stops, 7 * MINUTE),
    ("standstill", sqs_stops, 8 * MINUTE),
    ("standstill", provider_refuses, 8 * MINUTE),
    ("standstill", handlers_hang, 8 * MINUTE),
    ("depth", flood, 16 * MINUTE),
    ("message-malformed", counter(m.MESSAGES_MALFORMED), MINUTE),
    ("dlq-unexplained", unexplained, 6 * MINUTE),
    ("producer-quiet", quiet_night, 66 * MINUTE),
    ("sqs-away", sqs_stops, 7 * MINUTE),
    ("sqs-away", worker_alone_refused, 7 * MINUTE),
    ("deaf-workers", sqs_stops, 7 * MINUTE),
    # One idle worker; and the takers of a poison pill, which none of them survives.
    ("worker-lost", counter(m.WORKERS_LOST), MINUTE),
    ("worker-lost", counter(m.WORKERS_LOST, amount=3), MINUTE),
    ("worker-unwell", of_state("blocked"), MINUTE),
    ("worker-unwell", of_state("deaf"), MINUTE),
    ("worker-unwell", of_state("starved"), MINUTE),
    ("worker-unwell", of_state("silent"), MINUTE),
    ("leases-lost", counter(m.LEASES_LOST, once=False), 16 * MINUTE),
    ("loop-blocked", counter(m.EVENT_LOOP_BLOCKED, once=False, amount=1.5), 16 * MINUTE),
    ("heartbeat-late", gauge(m.HEARTBEAT_LATENESS, 6), 2 * MINUTE),
    ("relay-silent", relay_stops_reporting, 6 * MINUTE),
    ("relay-step-failed", relay_step_fails, MINUTE),
    ("api-down", down(API, seconds=HOUR), 4 * MINUTE),
    ("api-errors", refusals(20), 8 * MINUTE),
    ("postgres-away", outage_of("postgres"), 3 * MINUTE),
    ("redis-away", outage_of("redis_lock"), 6 * MINUTE),
    ("redis-away", outage_of("redis_memory"), 6 * MINUTE),
    ("redis-memory", gauge(m.REDIS_MEMORY_RATIO, 0.81, "memory"), 11 * MINUTE),
    ("lock-timeouts", flapping_redis, 25 * MINUTE),
    ("lock-timeouts", outage_of("redis_lock"), 25 * MINUTE),
    ("lock-unavailable", skipped_locks, 17 * MINUTE),
    ("lock-busy", busy_locks, 21 * MINUTE),
    ("lock-held-long", holds(120), 21 * MINUTE),
    ("lock-held-long", one_hold(math.inf), 18 * MINUTE),
    ("lock-slow", slow_locks(0.2), 21 * MINUTE),
]

NEIGHBOURS: list[tuple[str, Happening]] = [
    ("turn-failed", gauge(m.DLQ_MESSAGES, 1)),
    ("session-halted", halted_for(1801)),
    ("session-still-halted", halted_for(1800)),
    ("dlq-untouched", gauge(m.DLQ_UNTOUCHED, 86_401)),
    ("oldest", drain),
    ("standstill", resumed),
    ("deaf-workers", waits_while_paused),
    ("deaf-workers", flood),
    ("dlq-unexplained", too_many_to_explain),
    ("producer-quiet", refusals(20)),
    ("sqs-away", one_failed_call("sqs")),
    ("sqs-away", restart_of("sqs", seconds=120)),
    ("worker-lost", of_state("draining")),
    ("worker-unwell", of_state("draining")),
    ("worker-unwell", of_state("paused")),
    ("worker-unwell", of_state("lost")),
    ("leases-lost", counter(m.LEASES_LOST)),
    ("loop-blocked", counter(m.EVENT_LOOP_BLOCKED, amount=40)),
    ("relay-silent", down(API, seconds=HOUR)),
    ("api-down", down(WORKER, seconds=HOUR)),
    ("api-down", down(API, seconds=2 * MINUTE)),
    ("api-errors", refusals(4)),
    ("api-errors", refusals(50, requests=2)),
    ("postgres-away", restart_of_postgres_at_night),
    ("postgres-away", one_failed_call("postgres")),
    ("postgres-away", restart_of("postgres")),
    ("postgres-away", outage_of("redis_lock", "sqs")),
    ("redis-away", one_failed_call("redis_lock", "redis_memory")),
    ("redis-away", restart_of("redis_lock", "redis_memory")),
    ("lock-timeouts", restart_of("redis_lock")),
    ("lock-timeouts", outage_of("redis_memory")),
    ("lock-unavailable", restart_of("redis_lock")),
    ("lock-busy", drain),
    ("lock-held-long", holds(90)),
    ("lock-held-long", one_hold(400)),
    ("lock-slow", slow_locks(0.05)),
    ("lock-slow", slow_locks(1.0, lasting=5 * MINUTE)),
]


def test_every_rule_has_a_fault() -> None:
    assert {alarm for alarm, _, _ in FAULTS} == RULES.keys()


@pytest.mark.parametrize(
    ("alarm", "fault", "within"), FAULTS, ids=[f"{one[0]}-{place}" for place, one in enumerate(FAULTS)]
)
def test_a_rule_fires_in_its_fault_and_not_before(tmp_path: Path, alarm: str, fault: Happening, within: int) -> None:
    scrapes = live(fault, seconds=2 * HOUR if within > HOUR else HOUR)

    fired = first_alert(RULES[alarm], scrapes)

    begins = 0 if fault is quiet_night else BEGINS
    assert fired is not None
    assert begins <= fired <= begins + within
    agreed(tmp_path, FILE, RULES[alarm], scrapes, fired)


@pytest.mark.parametrize(
    ("alarm", "day"), NEIGHBOURS, ids=[f"{one[0]}-{place}" for place, one in enumerate(NEIGHBOURS)]
)
def test_a_rule_rests_in_its_neighbours(tmp_path: Path, alarm: str, day: Happening) -> None:
    scrapes = live(day)

    assert first_alert(RULES[alarm], scrapes) is None
    agreed(tmp_path, FILE, RULES[alarm], scrapes, None)


@pytest.mark.parametrize("day", [ordinary, quiet_night])
def test_no_rule_fires_in_a_time_of_calm(day: Happening) -> None:
    scrapes = live(day)

    fired = {alarm for alarm, rule in RULES.items() if first_alert(rule, scrapes) is not None}

    assert fired == ({"producer-quiet"} if day is quiet_night else set())


@pytest.mark.parametrize(
    ("day", "answered"),
    [(ordinary, 1), (quiet_night, 1), (flood, 1), (sqs_stops, 0), (provider_refuses, 0), (handlers_hang, 0)],
)
def test_the_dashboard_says_whether_users_are_answered(day: Happening, answered: float) -> None:
    panels = json.loads((ROOT / "infra/grafana/turnstile.json").read_text())["panels"]
    [asked] = [panel["targets"][0]["expr"] for panel in panels if panel["title"] == "Users are answered"]

    [shown] = evaluate(
        asked.replace("$__rate_interval", "1m").replace("$queue", ".*"), live(day, seconds=10 * MINUTE)
    ).values()

    assert shown == answered
