"""Deletes the turns of the declared queues that ended long ago, and says so: the relay's side of the retention."""

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.retention.delete_turns import Deleted, KeptFor, TurnRetention
from turnstile.telemetry.metrics import TURNS_DELETED
from turnstile.telemetry.own_log import log

DAY_SECONDS = 86_400.0


class OldTurns:
    """The old turns of all queues that this process has declared. A queue that it does not know may be kept for longer."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._retention = TurnRetention(database, find_kept(settings))

    async def delete_some(self) -> bool:
        """Runs one statement at most. False if nothing is to be done for a minute. Raises DatabaseUnavailableError."""
        deleted = await self._retention.delete_some()
        if deleted is None:
            return False
        if deleted.turns:
            _report(deleted)
        return True


def find_kept(settings: Settings) -> list[KeptFor]:
    """The queues whose turns are not kept for good."""
    found = []
    for queue in settings.queues:
        days, archive_days = settings.find_retention(queue)
        if days is not None:
            found.append(KeptFor(queue.name, days * DAY_SECONDS, archive_days * DAY_SECONDS))
    return found


def _report(deleted: Deleted) -> None:
    by_status = {"SUCCEEDED": deleted.succeeded, "FAILED": deleted.failed, "CANCELED": deleted.canceled}
    for status, turns in by_status.items():
        if turns:
            TURNS_DELETED.add(turns, deleted.queue, status, "archive" if deleted.archived else "nowhere")
    event = "retention.archived" if deleted.archived else "retention.deleted"
    log.info(event, queue=deleted.queue, turns=deleted.turns, failed=deleted.failed, sessions=deleted.sessions)
