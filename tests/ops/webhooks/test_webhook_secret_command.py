"""`turnstile webhook-secret`: which secrets sign a tenant's webhooks."""

import json
from typing import Any

import pytest

from tests.ops.conftest import Turnstile
from tests.ops.invoke import Ran
from turnstile.backends.postgres.database import Database
from turnstile.webhooks.signature import derive_secret

ROOT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ANOTHER = "whsec_" + "QUJD" * 8
COMMAND = "webhook-secret"


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "TURNSTILE_WEBHOOK_SECRETS": ROOT, "TURNSTILE_OPERATOR": "ada@desk"}


def secrets_of(ran: Ran) -> list[tuple[int, str]]:
    assert ran.code == 0, ran.err
    return [(one["number"], one["secret"]) for one in json.loads(ran.out)["secrets"]]


async def listed(turnstile: Turnstile) -> list[tuple[str, int, bool]]:
    ran = await turnstile(COMMAND, "list", "--json")
    return [(one["tenant_id"], one["number"], one["signs"]) for one in json.loads(ran.out)["secrets"]]


async def audited(database: Database) -> list[Any]:
    rows = await database.fetch("SELECT kind, actor, tenant_id, subject FROM audit ORDER BY id", {})
    return [tuple(row.values()) for row in rows]


async def test_each_tenant_has_a_secret_from_the_start(turnstile: Turnstile) -> None:
    first, second = [
        secrets_of(await turnstile(COMMAND, "show", "--tenant", tenant, "--json")) for tenant in ("acme", "globex")
    ]

    assert first == [(1, derive_secret(ROOT, "acme", 1))]
    assert second == [(1, derive_secret(ROOT, "globex", 1))]
    assert first != second


async def test_for_people_the_secret_alone_is_on_standard_output(turnstile: Turnstile) -> None:
    ran = await turnstile(COMMAND, "show", "--tenant", "acme")

    assert ran.out == f"{derive_secret(ROOT, 'acme', 1)}\n"
    assert ran.err == "secret 1 of tenant acme signs without an end:\n"


async def test_while_a_root_is_changed_there_is_a_secret_of_each(turnstile: Turnstile) -> None:
    both = {"TURNSTILE_WEBHOOK_SECRETS": f"{ANOTHER},{ROOT}"}

    found = secrets_of(await turnstile(COMMAND, "show", "--tenant", "acme", "--json", **both))

    assert found == [(1, derive_secret(ROOT, "acme", 1)), (1, derive_secret(ANOTHER, "acme", 1))]


async def test_after_a_rotation_both_sign(turnstile: Turnstile) -> None:
    rotated = secrets_of(await turnstile(COMMAND, "rotate", "--tenant", "acme", "--yes", "--json"))

    both = secrets_of(await turnstile(COMMAND, "show", "--tenant", "acme", "--json"))

    assert rotated == [(2, derive_secret(ROOT, "acme", 2))]
    assert both == [(1, derive_secret(ROOT, "acme", 1)), *rotated]
    assert await listed(turnstile) == [("acme", 1, True), ("acme", 2, True)]


async def test_after_the_overlap_only_the_new_one_signs(turnstile: Turnstile, database: Database) -> None:
    await turnstile(COMMAND, "rotate", "--tenant", "acme", "--overlap", "1h", "--yes")
    await database.fetch("UPDATE webhook_secrets SET signs_until = signs_until - interval '1 h'", {})

    found = secrets_of(await turnstile(COMMAND, "show", "--tenant", "acme", "--json"))

    assert [number for number, _ in found] == [2]
    assert await listed(turnstile) == [("acme", 1, False), ("acme", 2, True)]


async def test_a_replaced_secret_is_revoked_and_the_newest_is_not(turnstile: Turnstile) -> None:
    await turnstile(COMMAND, "rotate", "--tenant", "acme", "--yes")

    ran = [await turnstile(COMMAND, "revoke", "--tenant", "acme", number, "--yes") for number in ("2", "1", "1", "7")]

    assert [one.code for one in ran] == [1, 0, 1, 1]
    assert await listed(turnstile) == [("acme", 1, False), ("acme", 2, True)]


async def test_each_change_and_each_look_is_in_the_audit_without_the_secret(
    turnstile: Turnstile, database: Database
) -> None:
    for line in ("show --tenant acme", "rotate --tenant acme --yes", "revoke --tenant acme 1 --yes", "list"):
        await turnstile(COMMAND, *line.split())

    assert await audited(database) == [
        ("webhook_secret.shown", "ada@desk", "acme", "webhook secrets"),
        ("webhook_secret.rotated", "ada@desk", "acme", "webhook secret 2"),
        ("webhook_secret.revoked", "ada@desk", "acme", "webhook secret 1"),
    ]


async def test_without_the_setting_the_command_says_what_to_set(turnstile: Turnstile) -> None:
    ran = await turnstile(COMMAND, "show", "--tenant", "acme", TURNSTILE_WEBHOOK_SECRETS="")

    assert (ran.code, ran.out) == (2, "")
    assert "set it as the relay has it" in ran.err
