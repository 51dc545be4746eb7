"""A client gets another key. A process gets a second role, and the first one can no longer connect."""

import json
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.ops.conftest import Turnstile
from tests.runbooks.reader import Reader
from tests.support.database_roles import RoleUrls
from tests.support.stacks.stack import Stack
from turnstile.ops.roles.kinds import Kind


async def test_the_page(
    reader: Reader, roles: RoleUrls, stack: Stack, environment: dict[str, str], turnstile: Turnstile
) -> None:
    old = roles.application_role
    new = f"{old}_b"
    place = urlsplit(roles.application)
    url = place._replace(netloc=f"{new}:new@{place.hostname}:{place.port}").geturl()
    reader.names |= {"turnstile_api": old, "turnstile_api_b": new, "NEW": "a-new-token-of-redis"}
    reader.names["datname = 'turnstile'"] = f"datname = '{roles.name}'"
    environment |= {"DATABASE_URL": roles.of[Kind.OPERATOR], "TURNSTILE_WEBHOOK_SECRETS": "whsec_" + "QUJD" * 8}
    made = await turnstile("key", "create", "--tenant", "acme", "--role", "submit", "--json")
    leaked = json.loads(made.out)["key_id"]
    reader.names |= {"TENANT": "acme", "KEY_ID": leaked}
    assert leaked in (await reader.up_to("turnstile key list")).out
    assert (await reader.up_to("turnstile key rotate")).out.startswith("tsk_")
    await reader.up_to("turnstile key revoke")
    await reader.up_to("turnstile key create")
    keys = json.loads((await turnstile("key", "list", "--json")).out)["keys"]
    assert [one["state"] for one in keys] == ["valid", "valid", "revoked"]
    assert (await reader.up_to("turnstile webhook-secret rotate")).out.startswith("whsec_")
    assert (await reader.up_to("turnstile webhook-secret revoke")).out == "secret 1 of tenant acme signs no more\n"
    try:
        await reader.up_to('psql "$OWNER_URL" -c "CREATE ROLE')
        environment["DATABASE_URL"] = url
        with psycopg.connect(url):
            assert new in (await reader.up_to('psql "$OWNER_URL" -c "SELECT usename')).out
        await reader.up_to('psql "$OWNER_URL" -c "ALTER ROLE turnstile_api NOLOGIN')
        with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
            psycopg.connect(roles.application)
        await reader.up_to('psql "$OWNER_URL" -c "ALTER ROLE turnstile_api LOGIN')
        environment["DATABASE_URL"] = place._replace(netloc=f"{old}:newer@{place.hostname}:{place.port}").geturl()
        await reader.up_to('psql "$OWNER_URL" -c "ALTER ROLE turnstile_api_b NOLOGIN')
        with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
            psycopg.connect(url)
        await reader.to_the_end()
    finally:
        with psycopg.connect(stack.postgres.url, autocommit=True) as superuser:
            superuser.execute(SQL("DROP ROLE IF EXISTS {}").format(Identifier(new)))
