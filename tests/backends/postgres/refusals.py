"""What a pool says of a database that it can't use."""

from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, TablesUnfitError


async def refusal(database: Database) -> str:
    """Waits until a call is refused for the tables, and returns why: before the first connection, nothing is known of them."""

    async def refused() -> str | None:
        try:
            await database.ping()
        except TablesUnfitError as error:
            return str(error)
        except DatabaseUnavailableError:
            return None
        return None

    return await until(refused)
