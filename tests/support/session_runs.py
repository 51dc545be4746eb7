"""A session run that holds nothing."""

from uuid import UUID

from turnstile.turn.wire_format import WakeUp
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_run import SessionRun


def new_run() -> SessionRun:
    return SessionRun(WakeUp("t", "s", UUID(int=1)), None, None, HeartbeatEntry(None, None))
