"""`turnstile status`: a turn of any tenant, its attempts, and on request what was said."""

import typer

from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.ops.terminal.operator_access import load_settings, operate
from turnstile.ops.terminal.options import AsJson, ShowText, TenantId, TurnId, WaitSeconds
from turnstile.ops.turns.shown_turn import print_shown, read_shown
from turnstile.turn.status import TurnStatus


def show_turn(
    turn: TurnId,
    show_text: ShowText = False,
    wait: WaitSeconds = None,
    tenant: TenantId = None,
    as_json: AsJson = False,
) -> None:
    """Show a turn and its attempts.

    --json: turn, attempts (oldest first), and with --show-text messages (ordinal, role, kind, content, created_at). *_at is a
    time in UTC, *_seconds a duration; null: there is none, or not yet.

    turn: id, tenant_id, session_id, seq (its place in the session), queue, status, kind (turn, or compensation), generation (one
    more with each redrive or retry), attempt, failures, crashes, max_attempts, timeout_seconds (null: the handler's, or the
    queue's), deadline_at (of the attempt that runs, by the turn's own time-out; null: it has none), worker_id, created_at,
    queued_at (it began to wait), first_started_at, started_at (of its last attempt), finished_at, execute_at (it does not begin
    before), expires_at (no retry begins after), cancel_requested_at, cancel_reason, error_class, error, dead_lettered_at,
    dropped_at, dropped_by, halted_by (the FAILED turn that halts its session, or the session's erasure), trace_id, span_id,
    parent_span_id, parent_turn_id, joining (the children that it waits for), metadata, webhook (tries, delivered_at,
    next_try_at, error), waiting_seconds, running_seconds, total_seconds.

    An attempt: generation, attempt, fence, worker_id, release (of the handler), due_at, started_at, finished_at, waiting_seconds,
    running_seconds (null if its worker was lost; finished_at is then the time of the takeover), outcome, error_class, error,
    traceback.
    """
    shown = operate(load_settings(), read_shown, turn, tenant, wait, with_text=show_text)
    print_shown(shown, as_json=as_json)
    if wait is not None and shown.turn.status is not TurnStatus.SUCCEEDED:
        raise typer.Exit(ExitCode.FAILED)
