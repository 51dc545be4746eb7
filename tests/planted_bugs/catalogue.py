"""The planted bugs: each with the run that brings it to light and the invariant that must convict it by name.

They live here, as patches of the product's statements and functions in the processes of one chaos run. Nothing of them
ships, and nothing in the product knows of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos.terms import Options
from tests.planted_bugs import in_code, in_families, in_memory, in_statements


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A bug that somebody might have written."""

    name: str
    plant: Callable[[], None]
    invariant: str
    """Under which it must be convicted, whatever else it breaks."""
    options: Options = field(default_factory=Options)

    @property
    def what(self) -> str:
        """In a sentence."""
        return (self.plant.__doc__ or "").partition("\n")[0]


def _run(*kinds: str, **more: object) -> Options:
    fields = {
        "seconds": 8.0,
        "clients": 6,
        "workers": 3,
        "apis": 1,
        "relays": 1,
        "lanes": 2,
        "between_faults_seconds": 0.5,
        "bound_seconds": 15.0,
        **more,
    }
    return Options(kinds=kinds or ("none",), **fields)  # type: ignore[arg-type]


MUCH = 0.5
"""The share of turns that use their session's memory, where it is all about that."""

CATALOGUE: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="settle-without-fence",
        plant=in_statements.settle_without_fence,
        invariant="I3",
        # Long handlers: the sleeper must wake while its successor is still at work.
        options=_run(
            "worker-frozen", "worker-cut-off-from-postgres", sleep_seconds=(2.0, 4.0), seconds=12.0, bound_seconds=30.0
        ),
    ),
    PlantedBug(
        name="claim-without-head-test", plant=in_statements.claim_without_head_test, invariant="I5", options=_run()
    ),
    PlantedBug(
        name="next-ignores-the-halt",
        plant=in_statements.next_ignores_the_halt,
        invariant="I5",
        # Not a calm run, in which nothing fails.
        options=_run("redis-flushed", halt=True, bound_seconds=30.0),
    ),
    PlantedBug(
        name="claim-without-lease-test",
        plant=in_statements.claim_without_lease_test,
        invariant="I6",
        options=_run("redis-flushed", "lock-answer-lost"),
    ),
    PlantedBug(
        name="attempt-counted-at-settle",
        plant=in_statements.attempt_counted_at_settle,
        invariant="I7",
        options=_run("worker-sigkill"),
    ),
    PlantedBug(
        name="cancel-loses-to-completion",
        plant=in_statements.cancel_loses_to_completion,
        invariant="I13",
        # Handlers that end before the next heartbeat brings the cancel: only then has the settle the last word.
        options=_run("relay-sigkill", cancels=0.4, sleep_seconds=(0.15, 0.45), clients=10, pause_seconds=0.05),
    ),
    PlantedBug(
        name="cancel-ignores-running",
        plant=in_statements.cancel_ignores_running,
        invariant="I13",
        options=_run("relay-sigkill", cancels=0.4, sleep_seconds=(0.5, 2.0)),
    ),
    PlantedBug(
        name="dead-letter-not-owed",
        plant=in_statements.dead_letter_not_owed,
        invariant="I9",
        options=_run("relay-sigkill"),
    ),
    PlantedBug(
        name="reply-of-every-outcome",
        plant=in_statements.reply_of_every_outcome,
        invariant="I3",
        options=_run("relay-sigkill"),
    ),
    PlantedBug(
        name="relay-stamps-before-it-sends",
        plant=in_statements.relay_stamps_before_it_sends,
        invariant="I15",
        options=_run("sqs-down"),
    ),
    PlantedBug(
        name="redrive-without-compare-and-set",
        plant=in_statements.redrive_without_compare_and_set,
        invariant="I18",
        options=_run("two-redrives"),
    ),
    PlantedBug(
        name="blind-delete-of-the-lock",
        plant=in_statements.blind_delete_of_the_lock,
        invariant="I14",
        options=_run("worker-frozen", "redis-flushed", lanes=3),
    ),
    PlantedBug(
        name="waiting-mark-never-read",
        plant=in_statements.waiting_mark_never_read,
        invariant="I15",
        options=_run(turns_a_session=2, clients=10, pause_seconds=0.05),
    ),
    PlantedBug(
        name="leases-by-the-local-clock",
        plant=in_code.leases_by_the_local_clock,
        invariant="I4",
        options=_run("worker-clock-shifted", "worker-sigkill"),
    ),
    PlantedBug(
        name="deduplication-id-reused",
        plant=in_code.deduplication_id_reused,
        invariant="I15",
        options=_run("sqs-purged", "worker-sigkill", fifo=True),
    ),
    PlantedBug(
        name="malformed-message-dropped",
        plant=in_code.malformed_message_dropped,
        invariant="I10",
        options=_run("malformed-message"),
    ),
    PlantedBug(
        name="malformed-message-ends-the-poll",
        plant=in_code.malformed_message_ends_the_poll,
        invariant="LOGS",
        options=_run("malformed-message"),
    ),
    PlantedBug(
        name="superseded-taken-for-settled",
        plant=in_code.superseded_taken_for_settled,
        invariant="I2",
        options=_run("worker-frozen", "worker-cut-off-from-postgres", lanes=3),
    ),
    PlantedBug(
        name="lost-settle-taken-for-superseded",
        plant=in_code.lost_settle_taken_for_superseded,
        invariant="I2",
        options=_run("commit-answer-lost"),
    ),
    PlantedBug(
        name="heartbeat-on-the-event-loop",
        plant=in_code.heartbeat_on_the_event_loop,
        invariant="I16",
        options=_run("event-loop-blocked"),
    ),
    PlantedBug(
        name="release-charges-an-attempt",
        plant=in_code.release_charges_an_attempt,
        invariant="I7",
        options=_run("worker-sigterm-twice"),
    ),
    PlantedBug(
        name="snooze-charges-an-attempt",
        plant=in_code.snooze_charges_an_attempt,
        invariant="I7",
        options=_run("relay-sigkill"),
    ),
    PlantedBug(
        name="crash-budget-ignored",
        plant=in_code.crash_budget_ignored,
        invariant="I8",
        options=_run("poison-pill", lanes=1, between_faults_seconds=4.0),
    ),
    PlantedBug(
        name="idempotency-key-ignored",
        plant=in_code.idempotency_key_ignored,
        invariant="I12",
        options=_run(),
    ),
    PlantedBug(
        name="accepted-without-commit",
        plant=in_code.accepted_without_commit,
        invariant="I1",
        options=_run("postgres-unreachable", "postgres-half-open", lanes=1),
    ),
    PlantedBug(
        name="children-started-again",
        plant=in_families.children_started_again,
        invariant="I3",
        # Of the parents that wait for them, each starts some more in its next run: the first are too many.
        options=_run("relay-sigkill", families=0.3, seconds=5.0),
    ),
    PlantedBug(
        name="join-charges-an-attempt",
        plant=in_families.join_charges_an_attempt,
        invariant="I7",
        options=_run("relay-sigkill", families=0.5),
    ),
    PlantedBug(
        name="join-polls",
        plant=in_families.join_polls,
        invariant="I16",
        # Children that take their time.
        options=_run("relay-sigkill", families=0.5, sleep_seconds=(0.5, 1.5)),
    ),
    PlantedBug(
        name="join-over-at-the-first",
        plant=in_families.join_over_at_the_first,
        invariant="I3",
        options=_run("relay-sigkill", families=0.5),
    ),
    PlantedBug(
        name="parents-never-woken",
        plant=in_families.parents_never_woken,
        invariant="I15",
        options=_run("relay-sigkill", families=0.3, seconds=5.0),
    ),
    PlantedBug(
        name="once-not-recorded",
        plant=in_families.once_not_recorded,
        invariant="I3",
        options=_run("relay-sigkill", families=0.5),
    ),
    PlantedBug(
        name="once-not-looked-up",
        plant=in_families.once_not_looked_up,
        invariant="I3",
        options=_run("relay-sigkill", families=0.8),
    ),
    PlantedBug(
        name="compensation-of-a-retry",
        plant=in_families.compensation_of_a_retry,
        invariant="I3",
        options=_run("relay-sigkill", families=0.3),
    ),
    PlantedBug(
        name="compensation-once-for-ever",
        plant=in_families.compensation_once_for_ever,
        invariant="I1",
        # What fails must be redriven, and have failed again.
        options=_run("two-redrives", seconds=20.0, clients=12, pause_seconds=0.05),
    ),
    PlantedBug(
        name="fact-written-without-fence",
        plant=in_memory.fact_written_without_fence,
        invariant="I19",
        options=_run("worker-frozen", "worker-cut-off-from-postgres", lanes=3, bound_seconds=30.0, memory=MUCH),
    ),
    PlantedBug(
        name="facts-not-read-again-after-a-flush",
        plant=in_memory.facts_not_read_again_after_a_flush,
        invariant="I19",
        options=_run("redis-flushed", memory=MUCH),
    ),
    PlantedBug(
        name="expected-version-ignored",
        plant=in_memory.expected_version_ignored,
        invariant="I19",
        options=_run(memory=MUCH),
    ),
    PlantedBug(
        name="items-kept-in-the-process",
        plant=in_memory.items_kept_in_the_process,
        invariant="I19",
        # A busy machine answers for Redis too late, and nothing is kept.
        options=_run(memory=MUCH, clients=4, seconds=12.0),
    ),
    PlantedBug(
        name="history-of-any-version",
        plant=in_memory.history_of_any_version,
        invariant="I5",
        options=_run("redis-unreachable", "worker-cut-off-from-redis", "commit-answer-lost"),
    ),
    PlantedBug(
        name="history-without-the-inputs",
        plant=in_memory.history_without_the_inputs,
        invariant="I20",
        options=_run(),
    ),
)

BY_NAME = {bug.name: bug for bug in CATALOGUE}


def plant(name: str) -> None:
    """Plants a bug in this process. KeyError if there is none of that name."""
    BY_NAME[name].plant()
