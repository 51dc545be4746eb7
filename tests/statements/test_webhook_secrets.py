"""Which of a tenant's webhook secrets sign."""

import asyncio

from turnstile.backends.postgres.database import Database
from turnstile.statements.webhook_secrets import read_secret_numbers, revoke_secret, rotate_secret


async def signing(database: Database, tenant_id: str = "t") -> list[int]:
    return [one.number for one in await read_secret_numbers(database, tenant_id) if one.signs]


async def test_a_tenant_without_a_rotation_has_the_first(database: Database) -> None:
    assert await signing(database) == [1]
    assert await read_secret_numbers(database) == []


async def test_a_rotation_ends_only_the_secret_before(database: Database) -> None:
    for _ in range(3):
        await rotate_secret(database, "t", overlap_seconds=3600, by="ada")
    first, *_ = before = await read_secret_numbers(database, "t")
    await rotate_secret(database, "t", overlap_seconds=7200, by="ada")

    after = await read_secret_numbers(database, "t")

    assert [one.number for one in after] == [1, 2, 3, 4, 5]
    assert after[:3] == before[:3]
    assert first.signs_until is not None
    assert [one.signs_until is None for one in after] == [False, False, False, False, True]


async def test_of_rotations_at_the_same_time_each_has_a_number_of_its_own_or_none(database: Database) -> None:
    rotations = [rotate_secret(database, "t", overlap_seconds=3600, by="ada") for _ in range(5)]

    numbers = [number for number in await asyncio.gather(*rotations) if number is not None]

    assert sorted(numbers) == list(range(2, 2 + len(numbers)))
    assert (await signing(database))[-1] == max(numbers)
    assert [one.number for one in await read_secret_numbers(database, "t") if one.signs_until is None] == [max(numbers)]


async def test_the_newest_secret_is_never_revoked(database: Database) -> None:
    assert not await revoke_secret(database, "t", 1, by="ada")
    await rotate_secret(database, "t", overlap_seconds=3600, by="ada")

    assert [await revoke_secret(database, "t", number, by="ada") for number in (2, 1, 1)] == [False, True, False]
    assert await signing(database) == [2]
