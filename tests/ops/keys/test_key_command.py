"""`turnstile key`: create, list, rotate, revoke."""

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.ops.conftest import Turnstile
from turnstile.backends.postgres.database import Database

ABSENT = "tsk_0123456789abcdef"


async def run(turnstile: Turnstile, *arguments: str) -> Any:
    ran = await turnstile("key", *arguments, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


async def create(turnstile: Turnstile, *more: str) -> Any:
    return await run(turnstile, "create", "--tenant", "acme", "--role", "submit", *more)


async def listed(turnstile: Turnstile, *more: str) -> dict[str, Any]:
    return {one["key_id"]: one for one in (await run(turnstile, "list", *more))["keys"]}


def lifetime(key: dict[str, Any]) -> timedelta:
    lasts: timedelta = datetime.fromisoformat(key["expires_at"]) - datetime.fromisoformat(key["created_at"])
    return lasts


async def test_a_key_is_printed_once_and_only_its_digest_is_stored(turnstile: Turnstile, database: Database) -> None:
    made = await create(turnstile, "--note", "the shop's back end")
    shown = await turnstile("key", "list")

    [row] = await database.fetch("SELECT * FROM api_keys", {})
    assert row["digest"] == hashlib.sha256(made["key"].encode()).digest()
    assert made["key"].startswith(f"{row['key_id']}_")
    secret = made["key"].removeprefix(f"{row['key_id']}_")
    assert secret not in str(row)
    assert secret not in shown.out + json.dumps(await listed(turnstile))
    assert all(part in shown.out for part in (row["key_id"], "acme", "submit", "valid", "the shop's back end"))


async def test_standard_output_has_the_key_alone(turnstile: Turnstile) -> None:
    ran = await turnstile("key", "create", "--tenant", "acme", "--role", "read")

    assert ran.out.count("\n") == 1
    key = ran.out.strip()
    assert key not in ran.err
    assert key.rpartition("_")[0][:20] in ran.err
    assert "not shown again" in ran.err


async def test_a_key_expires_when_its_operator_says(turnstile: Turnstile, database: Database) -> None:
    made = await create(turnstile, "--expires", "90d")

    assert abs(lifetime(made) - timedelta(days=90)) < timedelta(minutes=1)
    assert (await create(turnstile))["expires_at"] is None
    await database.fetch("UPDATE api_keys SET expires_at = now() WHERE key_id = %(id)s", {"id": made["key_id"]})
    assert (await listed(turnstile))[made["key_id"]]["state"] == "expired"


async def test_the_list_can_be_of_one_tenant(turnstile: Turnstile) -> None:
    made = await create(turnstile)
    await run(turnstile, "create", "--tenant", "globex", "--role", "admin")

    assert {*await listed(turnstile, "--tenant", "acme")} == {made["key_id"]}


async def test_a_rotation_leaves_the_old_key_valid_for_the_overlap(turnstile: Turnstile) -> None:
    old = await create(turnstile, "--note", "shop")

    new = await run(turnstile, "rotate", old["key_id"], "--overlap", "2h", "--yes")

    assert new["key"] != old["key"]
    assert [new[name] for name in ("tenant_id", "role", "note", "expires_at")] == ["acme", "submit", "shop", None]
    found = (await listed(turnstile))[old["key_id"]]
    assert (found["state"], found["replaced_by"]) == ("replaced", new["key_id"])
    ends = datetime.fromisoformat(found["expires_at"]) - datetime.fromisoformat(new["created_at"])
    assert abs(ends - timedelta(hours=2)) < timedelta(minutes=1)


async def test_a_rotation_never_lengthens_the_old_keys_life_and_renews_the_new_ones(turnstile: Turnstile) -> None:
    old = await create(turnstile, "--expires", "1h")

    new = await run(turnstile, "rotate", old["key_id"], "--overlap", "7d", "--yes")

    assert (await listed(turnstile))[old["key_id"]]["expires_at"] == old["expires_at"]
    assert abs(lifetime(new) - timedelta(hours=1)) < timedelta(minutes=1)


async def test_each_change_is_an_audit_event(turnstile: Turnstile, database: Database) -> None:
    old = await create(turnstile, "--note", "shop")
    new = await run(turnstile, "rotate", old["key_id"], "--yes")
    await run(turnstile, "revoke", new["key_id"], "--yes")
    await run(turnstile, "revoke", new["key_id"], "--yes")

    events = await database.fetch("SELECT kind, actor, tenant_id, subject, reason FROM audit ORDER BY id", {})

    by = {"actor": old["created_by"], "tenant_id": "acme"}
    assert events == [
        {"kind": "key.created", **by, "subject": f"key {old['key_id']}", "reason": "shop"},
        {"kind": "key.rotated", **by, "subject": f"key {new['key_id']}", "reason": f"replaces {old['key_id']}"},
        {"kind": "key.revoked", **by, "subject": f"key {new['key_id']}", "reason": None},
    ]


async def test_only_a_valid_key_is_rotated(turnstile: Turnstile) -> None:
    replaced, revoked = await create(turnstile), await create(turnstile)
    await run(turnstile, "rotate", replaced["key_id"], "--yes")
    await run(turnstile, "revoke", revoked["key_id"], "--yes")
    before = await listed(turnstile)

    ran = [await turnstile("key", "rotate", one["key_id"], "--yes") for one in (replaced, revoked)]

    assert [(one.code, one.out, one.err.count("\n")) for one in ran] == [(1, "", 1)] * 2
    assert await listed(turnstile) == before


async def test_a_revoked_key_stays_in_the_list_with_who_revoked_it(turnstile: Turnstile) -> None:
    made = await create(turnstile)

    first = await run(turnstile, "revoke", made["key_id"], "--yes")
    again = await run(turnstile, "revoke", made["key_id"], "--yes")

    assert (first["state"], first["changed"], again["changed"]) == ("revoked", True, False)
    assert first["revoked_by"] == made["created_by"] == again["revoked_by"]
    assert first["revoked_at"] == again["revoked_at"]


@pytest.mark.parametrize("command", ["rotate", "revoke"])
async def test_a_change_asks_first(turnstile: Turnstile, command: str) -> None:
    made = await create(turnstile)
    before = await listed(turnstile)

    ran = await turnstile("key", command, made["key_id"])

    assert (ran.code, ran.out) == (2, "")
    assert "give --yes" in ran.err
    assert await listed(turnstile) == before


@pytest.mark.parametrize("command", ["rotate", "revoke"])
async def test_an_unknown_key_is_not_found_and_a_whole_key_is_not_repeated(turnstile: Turnstile, command: str) -> None:
    made = await create(turnstile)

    absent, whole = [await turnstile("key", command, one, "--yes") for one in (ABSENT, made["key"])]

    assert (absent.code, absent.err.count("\n")) == (3, 1)
    assert (whole.code, whole.err.count("\n")) == (2, 1)
    assert made["key"] not in whole.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tenant", ".acme", "--role", "submit"],
        ["--tenant", "acme", "--role", "owner"],
        ["--tenant", "acme", "--role", "read", "--expires", "soon"],
    ],
    ids=str,
)
async def test_what_is_wrong_is_refused_in_one_line(
    turnstile: Turnstile, database: Database, arguments: list[str]
) -> None:
    ran = await turnstile("key", "create", *arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert await database.fetch("SELECT 1 FROM api_keys", {}) == []
