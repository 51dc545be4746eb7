"""Every route and verb of the OpenAPI document, by callers of every kind, about what belongs to another tenant.

The calls are made from the document: a new route is in the matrix by itself. It needs a line here only for a path parameter
or a body that no route had before.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import AsyncClient, Response

from tests.archive.archiving import age, archive
from tests.producer.api.calls import KEYS, end, submit, succeed
from tests.producer.api.expectations import expect_problem, scrubbed
from tests.support.stored_keys import id_of, revoke, store_key
from turnstile.access.api_key import make_key
from turnstile.access.role import Role
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer import routes
from turnstile.producer.app import create_app

VERBS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
OPEN = {("get", "/healthz"), ("get", "/readyz")}
"""The operations that need no key."""
CREATES = {("post", "/v1/sessions/{session_id}/turns"): 202, ("post", "/v1/sessions/{session_id}/chat"): 200}
"""The operations that make what they name, in the caller's tenant."""
EMPTY = {("get", "/v1/sessions/{session_id}/stream")}
"""The operations for which what does not exist is the same as what has nothing. All others find nothing."""
BODIES: dict[tuple[str, str], Any] = {
    ("post", "/v1/sessions/{session_id}/turns"): {"input": "x"},
    ("post", "/v1/sessions/{session_id}/chat"): {"input": "x"},
    ("post", "/v1/turns/batch"): {"turns": [{"session_id": "theirs", "input": "x"}]},
    ("post", "/v1/tokens"): {"session_id": "theirs", "verbs": ["read"]},
}
ABSENT = {"turn_id": "01900000-0000-7000-8000-000000000000", "session_id": "absent"}
"""For each path parameter, what no tenant has. Nobody may choose the turn's id: a cancel of it leaves nothing."""
SECRET = "canary"


@dataclass(frozen=True)
class Operation:
    verb: str
    path: str
    parameters: tuple[str, ...]
    needed: Role | None

    def call(self, values: dict[str, str]) -> dict[str, Any]:
        body = BODIES.get((self.verb, self.path))
        url = re.sub(r"{(\w+)}", lambda found: values[found[1]], self.path)
        return {"method": self.verb.upper(), "url": url, **({} if body is None else {"json": body})}


def read_operations() -> Iterator[Operation]:
    for path, operations in create_app(Settings()).openapi()["paths"].items():
        for verb, operation in operations.items():
            scopes = [scope for one in operation.get("security", []) for scopes in one.values() for scope in scopes]
            assert len(scopes) == ((verb, path) not in OPEN), f"{verb} {path} declares {scopes} and not one role"
            assert ("requestBody" in operation) == ((verb, path) in BODIES), f"{verb} {path}: give it a body here"
            named = tuple(re.findall(r"{(\w+)}", path))
            assert {*named} <= {*ABSENT}, f"{path}: say here what another tenant has of its parameters"
            yield Operation(verb, path, named, Role(scopes[0]) if scopes else None)


OPERATIONS = list(read_operations())
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.verb} {one.path}")


@dataclass
class Theirs:
    """What acme has: for each path parameter some values, and the row of each table."""

    values: dict[str, list[str]] = field(default_factory=dict)

    def named_by(self, operation: Operation) -> Iterator[dict[str, str]]:
        if len(operation.parameters) == 1:
            (name,) = operation.parameters
            yield from ({name: value} for value in self.values[name])
        elif operation.parameters:
            yield {name: self.values[name][0] for name in operation.parameters}


@pytest.fixture
async def theirs(client: AsyncClient, database: Database, settings: Settings) -> Theirs:
    """A conversation with an archived turn, and one with turns that are done, waiting, canceled and scheduled."""
    archived = await submit(client, "archived", SECRET)
    await end(database, settings, "archived", succeed(SECRET))
    await age(database)
    await archive(database)
    done = await submit(client, "theirs", SECRET)
    await end(database, settings, "theirs", succeed(SECRET))
    waiting, canceled = [await submit(client, "theirs", SECRET) for _ in range(2)]
    await client.post(f"/v1/turns/{canceled}/cancel")
    later = {"input": SECRET, "execute_at": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    scheduled = (await client.post("/v1/sessions/theirs/turns", json=later)).json()["id"]
    found = Theirs({"turn_id": [done, waiting, canceled, scheduled, archived], "session_id": ["theirs", "archived"]})
    assert {(await client.get(f"/v1/turns/{one}")).status_code for one in found.values["turn_id"]} == {200}
    return found


@pytest.fixture
async def refused(database: Database) -> dict[str, str | None]:
    """The Authorization headers that are worth nothing."""
    revoked, expired = await store_key(database, "globex"), await store_key(database, "globex", lives_seconds=3600)
    await revoke(database, revoked)
    await database.fetch("UPDATE api_keys SET expires_at = now() WHERE key_id = %(id)s", {"id": id_of(expired)})
    unknown, _ = make_key(bytes(8), bytes(32))
    return {
        "none": None,
        "bad": "Bearer wrong",
        "unknown": f"Bearer {unknown}",
        "revoked": f"Bearer {revoked}",
        "expired": f"Bearer {expired}",
        "another scheme": f"Basic {KEYS['globex']}",
        "no scheme": KEYS["globex"],
    }


@pytest.fixture
async def roles(database: Database) -> dict[Role, str]:
    return {role: f"Bearer {await store_key(database, 'globex', role)}" for role in Role}


async def ask(client: AsyncClient, header: str | None, **call: Any) -> Response:
    request = client.build_request(**call)
    del request.headers["authorization"]
    request.headers.update({} if header is None else {"Authorization": header})
    return await client.send(request)


async def read_all(database: Database) -> dict[str, Any]:
    """All that acme has."""
    tables = ("turns", "sessions", "submissions", "chosen_ids", "archived_turns")
    return {
        table: await database.fetch(f"SELECT * FROM {table} WHERE tenant_id = 'acme' ORDER BY 1, 2", {})  # type: ignore[arg-type]
        for table in tables
    }


@every_operation
async def test_without_a_valid_credential_nothing_is_answered(
    client: AsyncClient, database: Database, theirs: Theirs, refused: dict[str, str | None], operation: Operation
) -> None:
    if operation.needed is None:
        return await expect_the_same_for_all(client, refused, operation)
    before = await read_all(database)

    named = [*theirs.named_by(operation), ABSENT]
    answers = [await ask(client, header, **operation.call(values)) for values in named for header in refused.values()]

    for answer in answers:
        expect_problem(answer, 401, "unauthorized")
    assert len({scrubbed(answer)[2] for answer in answers}) == 1
    assert await read_all(database) == before
    return None


async def expect_the_same_for_all(client: AsyncClient, headers: dict[str, str | None], operation: Operation) -> None:
    answers = [
        await ask(client, header, **operation.call({})) for header in (*headers.values(), f"Bearer {KEYS['acme']}")
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1


@every_operation
async def test_a_lesser_role_is_refused_whatever_it_asks_for(
    client: AsyncClient, database: Database, theirs: Theirs, roles: dict[Role, str], operation: Operation
) -> None:
    lesser = [role for role in Role if operation.needed is not None and not role.includes(operation.needed)]
    before = await read_all(database)

    for role in lesser:
        named = [*theirs.named_by(operation), ABSENT]
        answers = [await ask(client, roles[role], **operation.call(values)) for values in named]
        for answer in answers:
            expect_problem(answer, 403, "forbidden")
            assert f"`{operation.needed}`" in answer.json()["detail"]
        assert len({scrubbed(answer)[2] for answer in answers}) == 1
    assert await read_all(database) == before


@every_operation
async def test_what_another_tenant_has_is_answered_like_what_does_not_exist(
    app: FastAPI,
    client: AsyncClient,
    database: Database,
    theirs: Theirs,
    roles: dict[Role, str],
    operation: Operation,
) -> None:
    # No worker answers: a stream would not end.
    app.state.backend.watch.stop()
    enough = [role for role in Role if operation.needed is not None and role.includes(operation.needed)]
    before = await read_all(database)

    for role in enough:
        nowhere = await ask(client, roles[role], **operation.call(ABSENT))
        assert nowhere.status_code < 500
        for values in theirs.named_by(operation):
            there = await ask(client, roles[role], **operation.call(values))
            if (status := CREATES.get((operation.verb, operation.path))) is not None:
                assert (there.status_code, nowhere.status_code) == (status, status)
                continue
            if (operation.verb, operation.path) in EMPTY:
                assert there.status_code == 204
            else:
                expect_problem(there, 404, "not-found")
            assert scrubbed(there, *values.values()) == scrubbed(nowhere, *ABSENT.values())
            assert SECRET not in there.text
        assert not any(one in nowhere.text for one in (SECRET, *theirs.values["turn_id"]))
    assert await read_all(database) == before


@every_operation
async def test_a_page_with_a_token_finds_nothing_outside_of_its_session(
    client: AsyncClient, database: Database, theirs: Theirs, operation: Operation
) -> None:
    """Its session is of the same tenant."""
    if operation.needed is None:
        return
    wanted = {"session_id": "mine", "verbs": ["read", "submit", "cancel"]}
    token = (await client.post("/v1/tokens", json=wanted)).json()["token"]
    before = await read_all(database)

    nowhere = await ask(client, f"Bearer {token}", **operation.call(ABSENT))
    assert statuses_of(nowhere) <= {403, 404}
    for values in theirs.named_by(operation):
        there = await ask(client, f"Bearer {token}", **operation.call(values))
        assert scrubbed(there, *values.values()) == scrubbed(nowhere, *ABSENT.values())
    assert await read_all(database) == before


def statuses_of(answer: Response) -> set[int]:
    """That of the answer, or those of its parts."""
    results = answer.json().get("results", []) if answer.status_code == 200 else []
    return {one["status"] for one in results} or {answer.status_code}


@pytest.mark.parametrize("path", sorted({one.path for one in OPERATIONS}))
async def test_a_verb_that_is_not_in_the_document_does_nothing(
    client: AsyncClient, database: Database, theirs: Theirs, path: str
) -> None:
    documented = {one.verb for one in OPERATIONS if one.path == path} | ({"head"} if ("get", path) in OPEN else set())
    before = await read_all(database)
    values = {name: found[0] for name, found in theirs.values.items()}

    for verb in (*VERBS, "purge"):
        if verb not in documented:
            call = Operation(verb, path, (), None).call(values)
            assert (await client.request(**call)).status_code in {404, 405}, verb
    assert await read_all(database) == before


def test_no_route_under_v1_is_left_out_of_the_document() -> None:
    modules = [import_module(found.name) for found in iter_modules(routes.__path__, f"{routes.__name__}.")]
    served = {
        (verb.lower(), route.path)
        for module in modules
        if hasattr(module, "v1")
        for route in module.v1.routes
        for verb in route.methods
    }

    assert served == {(one.verb, one.path) for one in OPERATIONS if one.needed is not None}
