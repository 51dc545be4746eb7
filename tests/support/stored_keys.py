"""Keys of the table, made as `turnstile key create` makes them."""

import secrets

from turnstile.access.api_key import ID_BYTES, SECRET_BYTES, make_key
from turnstile.access.role import Role
from turnstile.backends.postgres.database import Database
from turnstile.statements.api_keys import NewKey, create_key, revoke_key


async def store_key(
    database: Database, tenant_id: str = "acme", role: Role = Role.ADMIN, *, lives_seconds: float | None = None
) -> str:
    """The text of a new key."""
    text, made = make_key(secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
    new = NewKey(key_id=made.key_id, digest=made.digest, by="test", lives_seconds=lives_seconds)
    async with database.connection() as connection:
        await create_key(connection, new, tenant_id=tenant_id, role=role, note=None)
    return text


def id_of(key: str) -> str:
    return key[: len("tsk_") + 2 * ID_BYTES]


async def revoke(database: Database, key: str) -> None:
    async with database.connection() as connection:
        assert await revoke_key(connection, id_of(key), by="test") is not None
