"""Bugs in what conversations bring: children, values, compensations, streams, waits, webhooks, memory, history."""

from tests.proof.planted_bugs import in_conversations, in_families, in_memory
from tests.proof.planted_bugs.planted_bug import PlantedBug, run

MUCH = 0.5
"""The share of turns that use their session's memory, where it is all about that."""

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="children-started-again",
        plant=in_families.children_started_again,
        invariant="I3",
        # Of the parents that wait for them, each starts some more in its next run: the first are too many.
        options=run("relay-sigkill", families=0.3, seconds=5.0),
    ),
    PlantedBug(
        name="join-charges-an-attempt",
        plant=in_families.join_charges_an_attempt,
        invariant="I7",
        options=run("relay-sigkill", families=0.5),
    ),
    PlantedBug(
        name="join-polls",
        plant=in_families.join_polls,
        invariant="I16",
        # Children that take their time.
        options=run("relay-sigkill", families=0.5, sleep_seconds=(0.5, 1.5)),
    ),
    PlantedBug(
        name="join-over-at-the-first",
        plant=in_families.join_over_at_the_first,
        invariant="I3",
        options=run("relay-sigkill", families=0.5),
    ),
    PlantedBug(
        name="parents-never-woken",
        plant=in_families.parents_never_woken,
        invariant="I15",
        options=run("relay-sigkill", families=0.3, seconds=5.0),
    ),
    PlantedBug(
        name="once-not-recorded",
        plant=in_families.once_not_recorded,
        invariant="I3",
        options=run("relay-sigkill", families=0.5),
    ),
    PlantedBug(
        name="once-not-looked-up",
        plant=in_families.once_not_looked_up,
        invariant="I3",
        options=run("relay-sigkill", families=0.8),
    ),
    PlantedBug(
        name="compensation-of-a-retry",
        plant=in_families.compensation_of_a_retry,
        invariant="I3",
        options=run("relay-sigkill", families=0.3),
    ),
    PlantedBug(
        name="compensation-once-for-ever",
        plant=in_families.compensation_once_for_ever,
        invariant="I1",
        # What fails must be redriven, and have failed again.
        options=run("two-redrives", seconds=20.0, clients=12, pause_seconds=0.05),
    ),
    PlantedBug(
        name="stream-goes-on-over-a-hole",
        plant=in_conversations.stream_goes_on_over_a_hole,
        invariant="I17",
        options=run("redis-unreachable", "worker-cut-off-from-redis", speeches=0.5, seconds=12.0, bound_seconds=60.0),
    ),
    PlantedBug(
        name="event-ids-begin-again",
        plant=in_conversations.event_ids_begin_again,
        invariant="I17",
        options=run("worker-sigkill", "worker-sigterm-twice"),
    ),
    PlantedBug(
        name="emit-not-fenced",
        plant=in_conversations.emit_not_fenced,
        invariant="I17",
        # The sleeper must go on while its successor speaks.
        options=run("worker-cut-off-from-postgres", speeches=0.5, seconds=15.0, bound_seconds=60.0),
    ),
    PlantedBug(
        name="end-not-said-at-settle",
        plant=in_conversations.end_not_said_at_settle,
        invariant="I17",
        options=run(seconds=12.0),
    ),
    PlantedBug(
        name="waits-are-woken-by-looks",
        plant=in_conversations.waits_are_woken_by_looks,
        invariant="I15",
        options=run(seconds=15.0),
    ),
    PlantedBug(
        name="wait-without-its-bound",
        plant=in_conversations.wait_without_its_bound,
        invariant="I15",
        # Nobody would notice where turns end within what was asked for.
        options=run(seconds=12.0, clients=4, sleep_seconds=(4.0, 8.0), bound_seconds=60.0),
    ),
    PlantedBug(
        name="any-answer-delivers-a-webhook",
        plant=in_conversations.any_answer_delivers_a_webhook,
        invariant="I20",
        options=run("redis-flushed", seconds=14.0, clients=10),
    ),
    PlantedBug(
        name="webhook-given-up-at-once",
        plant=in_conversations.webhook_given_up_at_once,
        invariant="I20",
        options=run("redis-flushed", seconds=12.0),
    ),
    PlantedBug(
        name="webhook-signed-without-its-id",
        plant=in_conversations.webhook_signed_without_its_id,
        invariant="I20",
        options=run(),
    ),
    PlantedBug(
        name="fact-written-without-fence",
        plant=in_memory.fact_written_without_fence,
        invariant="I19",
        options=run(
            *("worker-frozen", "worker-cut-off-from-postgres"),
            lanes=3,
            seconds=20.0,
            clients=10,
            bound_seconds=30.0,
            memory=MUCH,
        ),
    ),
    PlantedBug(
        name="facts-not-read-again-after-a-flush",
        plant=in_memory.facts_not_read_again_after_a_flush,
        invariant="I19",
        options=run("redis-flushed", memory=MUCH),
    ),
    PlantedBug(
        name="expected-version-ignored",
        plant=in_memory.expected_version_ignored,
        invariant="I19",
        options=run(memory=MUCH),
    ),
    PlantedBug(
        name="items-kept-in-the-process",
        plant=in_memory.items_kept_in_the_process,
        invariant="I19",
        # A busy machine answers for Redis too late, and nothing is kept.
        options=run(memory=MUCH, clients=4, seconds=12.0),
    ),
    PlantedBug(
        name="history-of-any-version",
        plant=in_memory.history_of_any_version,
        invariant="I5",
        # It shows in the first turn after a settlement of which Redis was not told, if that turn looks at its history.
        options=run("redis-unreachable", "worker-cut-off-from-redis", "commit-answer-lost", histories=1.0),
    ),
    PlantedBug(
        name="history-without-the-inputs",
        plant=in_memory.history_without_the_inputs,
        invariant="I21",
        options=run(),
    ),
)
