"""Bugs in what carries every turn: submit, relay, claim, renew, settle, lock, delete, redrive."""

from tests.proof.planted_bugs import in_code, in_relay, in_statements
from tests.proof.planted_bugs.planted_bug import PlantedBug, run

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="settle-without-fence",
        plant=in_statements.settle_without_fence,
        invariant="I3",
        # Long handlers: the sleeper must wake while its successor is still at work.
        options=run(
            "worker-frozen", "worker-cut-off-from-postgres", sleep_seconds=(2.0, 4.0), seconds=12.0, bound_seconds=30.0
        ),
    ),
    PlantedBug(
        name="claim-without-head-test", plant=in_statements.claim_without_head_test, invariant="I5", options=run()
    ),
    PlantedBug(
        name="next-ignores-the-halt",
        plant=in_statements.next_ignores_the_halt,
        invariant="I5",
        # Not a calm run, in which nothing fails.
        options=run("redis-flushed", halt=True, bound_seconds=30.0),
    ),
    PlantedBug(
        name="claim-without-lease-test",
        plant=in_statements.claim_without_lease_test,
        invariant="I6",
        options=run("redis-flushed", "lock-answer-lost"),
    ),
    PlantedBug(
        name="renewals-not-counted",
        plant=in_code.renewals_not_counted,
        invariant="I16",
        options=run("postgres-table-locked", sleep_seconds=(1.0, 3.0), seconds=14.0, lanes=1, bound_seconds=30.0),
    ),
    PlantedBug(
        name="takeover-charged-twice",
        plant=in_statements.takeover_charged_twice,
        invariant="I7",
        options=run("worker-sigkill"),
    ),
    PlantedBug(
        name="takeover-never-allowed",
        plant=in_relay.takeover_never_allowed,
        invariant="I15",
        options=run("worker-sigkill"),
    ),
    PlantedBug(
        name="crashes-never-cleared",
        plant=in_relay.crashes_never_cleared,
        invariant="I7",
        # A turn is lost, taken over and then tried again: many kills, and many turns that fail.
        options=run("worker-sigkill", seconds=20.0, clients=14, pause_seconds=0.05, bound_seconds=30.0),
    ),
    PlantedBug(
        name="relay-captures",
        plant=in_relay.relay_captures,
        invariant="I15",
        options=run("sqs-purged"),
    ),
    PlantedBug(
        name="refused-statement-ends-the-process",
        plant=in_relay.refused_statement_ends_the_process,
        invariant="LOGS",
        options=run(),
    ),
    PlantedBug(
        name="attempt-counted-at-settle",
        plant=in_statements.attempt_counted_at_settle,
        invariant="I7",
        options=run("worker-sigkill"),
    ),
    PlantedBug(
        name="cancel-loses-to-completion",
        plant=in_statements.cancel_loses_to_completion,
        invariant="I13",
        # Only a handler that ends before it hears of its cancel leaves the last word to the settle: hints are lost with
        # Redis, and the next heartbeat comes after half a second.
        options=run(
            "redis-unreachable",
            cancels=0.4,
            sleep_seconds=(0.15, 0.45),
            clients=14,
            pause_seconds=0.05,
            seconds=14.0,
            lanes=1,
        ),
    ),
    PlantedBug(
        name="cancel-ignores-running",
        plant=in_statements.cancel_ignores_running,
        invariant="I13",
        options=run("relay-sigkill", cancels=0.4, sleep_seconds=(0.5, 2.0)),
    ),
    PlantedBug(
        name="dead-letter-not-owed",
        plant=in_statements.dead_letter_not_owed,
        invariant="I9",
        options=run("relay-sigkill"),
    ),
    PlantedBug(
        name="reply-of-every-outcome",
        plant=in_statements.reply_of_every_outcome,
        invariant="I3",
        options=run("relay-sigkill"),
    ),
    PlantedBug(
        name="relay-stamps-before-it-sends",
        plant=in_statements.relay_stamps_before_it_sends,
        invariant="I15",
        options=run("sqs-down"),
    ),
    PlantedBug(
        name="redrive-without-compare-and-set",
        plant=in_statements.redrive_without_compare_and_set,
        invariant="I18",
        options=run("two-redrives"),
    ),
    PlantedBug(
        name="blind-delete-of-the-lock",
        plant=in_statements.blind_delete_of_the_lock,
        invariant="I14",
        # Whoever thaws must have had a lock, and his successor have it still.
        options=run("worker-frozen", lanes=3, speeches=0.5, seconds=15.0, bound_seconds=60.0),
    ),
    PlantedBug(
        name="waiting-mark-never-read",
        plant=in_statements.waiting_mark_never_read,
        invariant="I15",
        # No later turn of the session must bring it to light: many short sessions.
        options=run(turns_a_session=2, clients=10, pause_seconds=0.05),
    ),
    PlantedBug(
        name="leases-by-the-local-clock",
        plant=in_code.leases_by_the_local_clock,
        invariant="I4",
        options=run("worker-clock-shifted", "worker-sigkill"),
    ),
    PlantedBug(
        name="deduplication-id-reused",
        plant=in_code.deduplication_id_reused,
        invariant="I15",
        options=run("sqs-purged", "worker-sigkill", fifo=True),
    ),
    PlantedBug(
        name="malformed-message-dropped",
        plant=in_code.malformed_message_dropped,
        invariant="I10",
        options=run("malformed-message"),
    ),
    PlantedBug(
        name="malformed-message-ends-the-poll",
        plant=in_code.malformed_message_ends_the_poll,
        invariant="LOGS",
        options=run("malformed-message"),
    ),
    PlantedBug(
        name="superseded-taken-for-settled",
        plant=in_code.superseded_taken_for_settled,
        invariant="I2",
        options=run("worker-frozen", "worker-cut-off-from-postgres", lanes=3),
    ),
    PlantedBug(
        name="lost-settle-taken-for-superseded",
        plant=in_code.lost_settle_taken_for_superseded,
        invariant="I2",
        options=run("commit-answer-lost"),
    ),
    PlantedBug(
        name="heartbeat-on-the-event-loop",
        plant=in_code.heartbeat_on_the_event_loop,
        invariant="I16",
        options=run("event-loop-blocked"),
    ),
    PlantedBug(
        name="release-charges-an-attempt",
        plant=in_code.release_charges_an_attempt,
        invariant="I7",
        options=run("worker-sigterm-twice"),
    ),
    PlantedBug(
        name="snooze-charges-an-attempt",
        plant=in_code.snooze_charges_an_attempt,
        invariant="I7",
        # One turn in fifty asks for patience.
        options=run("relay-sigkill", clients=14, pause_seconds=0.05, seconds=14.0),
    ),
    PlantedBug(
        name="crash-budget-ignored",
        plant=in_code.crash_budget_ignored,
        invariant="I8",
        options=run("poison-pill", lanes=1, between_faults_seconds=4.0),
    ),
    PlantedBug(
        name="idempotency-key-ignored",
        plant=in_code.idempotency_key_ignored,
        invariant="I12",
        options=run(),
    ),
    PlantedBug(
        name="tenant-cap-not-kept",
        plant=in_code.tenant_cap_not_kept,
        invariant="I22",
        options=run("relay-sigkill", clients=12, workers=1, tenant_slots=2),
    ),
    PlantedBug(
        name="slots-not-counted",
        plant=in_code.slots_not_counted,
        invariant="I23",
        options=run("relay-sigkill", clients=80, workers=1, lanes=1, pause_seconds=0.02, tenant_slots=None),
    ),
    PlantedBug(
        name="accepted-without-commit",
        plant=in_code.accepted_without_commit,
        invariant="I1",
        options=run("postgres-unreachable", "postgres-half-open", lanes=1),
    ),
)
