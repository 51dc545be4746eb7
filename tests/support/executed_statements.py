"""The statements that each kind of process executes, as recorded in a run of the end-to-end tests; and its rarer ones."""

from collections.abc import Iterator

from turnstile.archive import move, reads
from turnstile.audit import record as audit
from turnstile.backends.postgres.table_version import READ_VERSION
from turnstile.erasure import remains
from turnstile.erasure import rows as erasure
from turnstile.memory import durable_items
from turnstile.ops.audit import read_audit
from turnstile.ops.dead_letters import drop_failed, failed_turns, redrive_log, redriven_turns
from turnstile.ops.doctor import checks, read_database
from turnstile.ops.roles.kinds import Kind
from turnstile.ops.sessions import halted_session, stuck_sessions, wake_turn
from turnstile.ops.stats import read_stats
from turnstile.ops.turns import attempts, open_turns, operator_turns, trace_tree
from turnstile.ops.why import read_wait_facts
from turnstile.queries import (
    api_keys,
    attention,
    backlog,
    earlier_attempts,
    progress,
    session_lists,
    session_messages,
    session_state,
    session_turns,
    turn_lists,
    turns,
    workers,
)
from turnstile.relay import arrivals
from turnstile.retention import delete_archived, delete_records, delete_turns
from turnstile.statements import (
    advance_fences,
    browser_tokens,
    cancel,
    cancel_before_submit,
    claim,
    compensate,
    defer,
    join,
    limit_overrides,
    lost_turns,
    once_values,
    owed_messages,
    paused_queues,
    peek_heads,
    place_scheduled,
    read_claims,
    redrive_audit,
    renew_lease,
    revive,
    session_head,
    settle,
    start_children,
    submit,
    submit_in_transaction,
    submit_on_busy,
    turns_ahead,
    waiting_tenants,
    webhook_secrets,
    webhooks,
    worker_registry,
)
from turnstile.statements import api_keys as key_changes

_SUBMIT = (submit.SUBMIT, submit.READ_SUBMISSIONS)

_SUBMIT_ON_BUSY = (
    submit_on_busy.TAKE_KEY, submit_on_busy.LOCK_SESSION, submit_on_busy.BUSY_WITH, submit_on_busy.LOCK_LAST,
    submit_on_busy.ADD_INPUT, submit_on_busy.KEEP_ANSWER,
)  # fmt: skip

_CANCEL = (
    cancel.LOCK_SESSION, cancel.LOCK_TURN, cancel.CANCEL_PENDING, cancel.REQUEST_CANCEL, session_head.WAKE_HEAD,
    reads.READ_ARCHIVED_STANDINGS,
)  # fmt: skip

_CANCEL_SESSION = (cancel.LOCK_NAMED_SESSION, cancel.LOCK_OPEN)

_READ = (turns._READ, turns._STANDINGS, reads.READ_ARCHIVED, reads.READ_ARCHIVED_STANDINGS)

_REPORTS = (attention.ATTENTION, backlog.BACKLOG, progress.PROGRESS, workers.WORKERS)


def _lists() -> Iterator[str]:
    filters = frozenset({"tenant_id", "session_id", "queue", "error_class", "before"})
    yield turn_lists._page(filters, pending=True)
    yield turn_lists._page(filters | {"status"}, pending=False)
    yield turn_lists._page_in_reach(filters | {"status"})
    yield turn_lists.end_of_reach(filters)


def _of_clients() -> Iterator[str]:
    yield from (*_SUBMIT, *_SUBMIT_ON_BUSY, *_CANCEL, *_CANCEL_SESSION, cancel_before_submit.LEAVE_TOMBSTONE)
    yield from (*_READ, session_messages.VERSION, session_messages.HISTORY_PAGE)
    yield from _lists()


def _of_api() -> Iterator[str]:
    yield from _of_clients()
    yield from (session_state.READ_SESSION, session_state.OPEN_TURNS, session_state.ENDED_TURNS)
    yield from (session_lists.FIRST_PAGE, session_lists.NEXT_PAGE)
    yield session_turns.LOOK_AHEAD
    yield from (erasure.OPEN, erasure.READ_OPEN, erasure.EXTEND_PARTS, erasure.EXTEND, erasure.HALT, erasure.BEGIN)
    yield from (
        api_keys.READ,
        api_keys.READ_TOKENS,
        api_keys.EXISTS,
        key_changes.NOTE_USE,
        browser_tokens.MAKE,
        audit.RECORD,
    )


def _of_worker() -> Iterator[str]:
    yield from (advance_fences.ADVANCE, claim.CLAIM, read_claims.READ_CLAIMS, settle.SETTLE, settle.REREAD_SETTLED)
    yield from (renew_lease.RENEW, defer.DEFER, compensate.COMPENSATE_FAILED, join.WAKE_PARENTS, lost_turns.FIND_LOST)
    yield from (worker_registry.ANNOUNCE, worker_registry.WITHDRAW, paused_queues.READ_PAUSED)
    yield from (peek_heads.PEEK_HEADS, turns_ahead.FIND_AHEAD, limit_overrides.READ_OVERRIDES)
    yield from (waiting_tenants.FIND_WAITING_TENANT, earlier_attempts.READ_EARLIER_ATTEMPTS)
    # What a handler may ask for.
    yield from (*_SUBMIT, *_CANCEL, start_children.READ_CHILDREN, start_children.READ_DEPTH)
    yield from (start_children.READ_STATES, start_children.READ_OUTPUTS)
    yield from (once_values.READ_VALUES, once_values.RECORD_VALUE, once_values.REREAD_VALUE)
    yield from (session_messages.HISTORY_PAGE, session_messages.HISTORY_AS_TEXT)
    yield from (durable_items.READ_ITEMS, durable_items.WRITE_ITEMS, durable_items.DELETE_ITEMS)
    # A dead letter that somebody has moved back to its queue.
    yield from (revive.READ_OWNER, revive.LOCK_FAILED, revive.REVIVE, redrive_audit.RECORD_MOVE)


def _of_relay() -> Iterator[str]:
    yield from (owed_messages.TAKE_DUE, owed_messages.FIND_DUE, owed_messages.SET_RESEND_DEADLINE)
    yield from (owed_messages.DEAD_LETTERED, owed_messages.GIVE_BACK, paused_queues.READ_PAUSED)
    yield from (place_scheduled.PLACE_SCHEDULED, place_scheduled.FIND_UNPLACED, join.WAKE_JOINED)
    yield from (lost_turns.MARK_LOST, lost_turns.ANY_LOST, renew_lease.RENEW, arrivals.IS_FREE, arrivals.TAKE)
    yield from (submit.FORGET_SUBMISSIONS, cancel_before_submit.FORGET_CHOSEN_IDS, durable_items.PRUNE_ITEMS)
    yield browser_tokens.FORGET_TOKENS
    yield from (delete_turns.DECLARE, delete_turns.DELETE_ENDED, delete_archived.DELETE_ARCHIVED)
    yield from (delete_records.FORGET_REDRIVES, delete_records.FORGET_AUDIT, delete_records.FORGET_ERASURES)
    yield delete_records.FORGET_WORKERS
    yield from _erasure()
    yield from (webhooks.TAKE, webhooks.FIND, webhooks.COUNT_DUE, webhooks.NOTE_DELIVERED, webhooks.NOTE_FAILED)
    yield from _REPORTS


def _erasure() -> Iterator[str]:
    """What goes on with an erasure, and what it begins in the sessions of children."""
    yield from (erasure.TAKE, erasure.PUT_BACK, erasure.HALT, erasure.BEGIN, erasure.FIND, erasure.ERASE_TURNS)
    yield from (erasure.FIND_ARCHIVED, erasure.ERASE_ARCHIVED, erasure.ERASE_MEMORY, erasure.END_SESSION)
    yield from (erasure.END_PART, erasure.END, erasure.FIND_SESSIONS, *erasure.ERASE_BESIDE_SESSIONS)
    yield from (*_CANCEL_SESSION, cancel.CANCEL_PENDING, cancel.REQUEST_CANCEL, session_head.WAKE_HEAD, audit.RECORD)


def _of_operator() -> Iterator[str]:
    # `cancel`, `list` and `status` do what clients do; `submit --direct` does what applications do.
    yield from (*_CANCEL, *_CANCEL_SESSION, *_READ, *_lists())
    yield submit_in_transaction.SUBMIT_TURN
    yield from (
        erasure.OPEN,
        erasure.READ_OPEN,
        erasure.EXTEND_PARTS,
        erasure.EXTEND,
        erasure.REVOKE_KEYS,
        erasure.READ,
        remains.LEFT,
        *_erasure(),
    )
    yield from (
        audit.RECORD,
        read_audit.READ,
        api_keys.LIST,
        key_changes.CREATE,
        key_changes.ROTATE,
        key_changes.REVOKE,
        limit_overrides.SET,
        limit_overrides.CLEAR,
        limit_overrides.READ_OVERRIDES,
    )
    yield from _REPORTS
    everything = frozenset({"queue", "tenant_id", "session_id", "error_class", "trace_id", "older_than_seconds"})
    yield failed_turns._list(everything, following=True)
    yield failed_turns._groups(everything)
    yield failed_turns._count_halting(everything)
    yield open_turns._list(everything, None)
    yield stuck_sessions.make_statement(frozenset())
    yield read_stats.make_statement(everything)
    for by in read_stats.GroupBy:
        yield read_stats.make_statement(everything, by)
    yield from (
        trace_tree.TRACE_OF,
        trace_tree.TRACE_TREE,
        attempts.READ,
        operator_turns.MESSAGES,
        operator_turns.FIND_TENANTS,
    )
    yield from (read_wait_facts.TURNS, read_wait_facts.WORKERS, read_wait_facts.RUNNING, read_wait_facts.OLDER)
    yield from (read_wait_facts.ROW_LOCKS, read_wait_facts.TURN_OF_SESSION, backlog.BY_TENANT, workers.RUNNING)
    yield from (halted_session.READ_HALT, halted_session.LOCK_HALTED, halted_session.RETRY)
    yield from (halted_session.OWE_DEAD_LETTER, halted_session.RESUME, wake_turn.WAKE_TURN, read_database.WAKE)
    yield from (check.statement for check in checks.CHECKS if check.statement)
    yield from (
        revive.LOCK_FAILED,
        revive.REVIVE,
        revive.READ_GENERATIONS,
        revive.FIND_COMPENSATED,
        drop_failed.DROP_FAILED,
    )
    yield from (
        redrive_audit.RECORD,
        redrive_audit.NOTE,
        redrive_audit.FINISH,
        redrive_log.LOG,
        redriven_turns.READ_ENDS,
    )
    yield from (paused_queues.PAUSE, paused_queues.RESUME, paused_queues.READ_PAUSED)
    yield from (webhook_secrets.READ, webhook_secrets.ROTATE, webhook_secrets.REVOKE)
    yield from (move.SURVEY, move.MOVE, move.STEP_OVER)
    yield from (advance_fences._LAST_FENCE, advance_fences._ADVANCE_TO)


def _of_submitter() -> Iterator[str]:
    # It knows no version of the tables: the function is of theirs.
    yield submit_in_transaction.SUBMIT_TURN


_STATEMENTS = {
    Kind.API: _of_api,
    Kind.WORKER: _of_worker,
    Kind.RELAY: _of_relay,
    Kind.OPERATOR: _of_operator,
    Kind.SUBMITTER: _of_submitter,
}


def executed_by(kind: Kind) -> list[str]:
    """Their texts, each once."""
    first = [] if kind is Kind.SUBMITTER else [READ_VERSION]
    return list(dict.fromkeys([*first, *_STATEMENTS[kind]()]))
