"""An erased tenant can't call any more: its keys are revoked with the request, and nothing of them is left at its end."""

from datetime import datetime

from tests.archive.archiving import end_turn
from tests.erasure.erasing import finish, request
from tests.support.stored_keys import id_of, revoke, store_key
from turnstile.access.api_key import ApiKey
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.erasure.eraser import Eraser
from turnstile.erasure.remains import count_rows_left
from turnstile.statements.browser_tokens import make_browser_token


async def make_token(database: Database, made_by: str, tenant_id: str = "t", *, digit: str = "0") -> datetime:
    token = ApiKey(f"tst_{digit * 16}", bytes(32))
    return await make_browser_token(database, token, tenant_id=tenant_id, session_id="s", verbs=[], made_by=made_by)


async def keys(database: Database) -> dict[str, str | None]:
    """Who has revoked each key."""
    return {row["key_id"]: row["revoked_by"] for row in await database.fetch("SELECT * FROM api_keys", {})}


async def test_the_request_revokes_the_keys_and_the_audit_names_each(database: Database) -> None:
    key, gone, of_another = [id_of(await store_key(database, tenant)) for tenant in ("t", "t", "u")]
    await revoke(database, f"{gone}_")

    for _ in range(2):
        await request(database, None)

    assert await keys(database) == {key: "somebody", gone: "test", of_another: None}
    assert await database.fetch("SELECT kind, actor, subject, tenant_id, reason FROM audit", {}) == [
        {
            "kind": "key.revoked", "actor": "somebody", "subject": f"key {key}", "tenant_id": "t",
            "reason": "its tenant is erased",
        }
    ]  # fmt: skip


async def test_a_second_request_revokes_the_keys_that_were_made_since(database: Database) -> None:
    await request(database, None)
    await store_key(database, "t")

    await request(database, None)

    [key] = await database.fetch("SELECT revoked_by FROM api_keys WHERE tenant_id = 't'", {})
    assert key["revoked_by"] is not None


async def test_a_session_takes_no_key_with_it(database: Database, settings: Settings, eraser: Eraser) -> None:
    await end_turn(database, settings)
    key = id_of(await store_key(database, "t"))

    await finish(database, eraser, await request(database))

    assert await keys(database) == {key: None}


async def test_at_the_end_no_key_and_no_token_is_left(database: Database, eraser: Eraser) -> None:
    key, of_another = id_of(await store_key(database, "t")), id_of(await store_key(database, "u"))
    await make_token(database, key)
    await make_token(database, "jwt:0123", digit="1")
    await make_token(database, of_another, "u", digit="2")
    assert await count_rows_left(database, "t", "s") == {}
    assert await count_rows_left(database, "t", None) == {"api_keys": 1, "browser_tokens": 2}

    await finish(database, eraser, await request(database, None))

    assert await count_rows_left(database, "t", None) == {}
    assert await keys(database) == {of_another: None}
    assert [row["tenant_id"] for row in await database.fetch("SELECT * FROM browser_tokens", {})] == ["u"]


async def test_a_key_that_is_made_after_the_request_stays(database: Database, eraser: Eraser) -> None:
    await store_key(database, "t")
    erasure = await request(database, None)
    new = id_of(await store_key(database, "t"))

    await finish(database, eraser, erasure)

    assert await keys(database) == {new: None}
    assert await count_rows_left(database, "t", None) == {}
