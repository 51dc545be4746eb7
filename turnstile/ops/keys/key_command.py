"""`turnstile key`: create, list, rotate and revoke the keys of the API. No API process needs a restart for it.

A key is printed once, on standard output. The table has only its digest.
"""

import secrets
from dataclasses import asdict
from typing import Annotated, Any

import typer

from turnstile.access.api_key import ID_BYTES, ID_RULE, SECRET_BYTES, is_key_id, make_key
from turnstile.access.role import Role
from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import AsJson, Limit, TenantId, Yes, age_option, confirm, make_typer, parse_age
from turnstile.ops.terminal.output import print_json, print_table, print_text, say, short_duration, short_time
from turnstile.queries.api_keys import ListedKey, list_keys
from turnstile.statements.api_keys import KeyRecord, NewKey, create_key, revoke_key, rotate_key
from turnstile.turn.identifiers import ID_RULE as TENANT_RULE
from turnstile.turn.identifiers import is_valid_id

OVERLAP_SECONDS = 86_400.0

commands = make_typer(help="The API's keys.", no_args_is_help=True)

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's first part: `tsk_` and 16 hex digits.")]


@commands.command()
def create(
    tenant: Annotated[str, typer.Option(help="The tenant whose turns the key is for.")],
    role: Annotated[Role, typer.Option(help="What it may do: each role includes those before it.")],
    expires: Annotated[
        float | None,
        typer.Option(parser=parse_age, metavar="AGE", help="Refuse it after this time: 90d. Left out: never."),
    ] = None,
    note: Annotated[str | None, typer.Option(help="What it is for, for those who list the keys.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it. It is shown only this once. The API accepts it at once.

    --json: key (the secret), key_id, tenant_id, role, note, created_by, created_at, expires_at, last_used_at, replaced_by,
    revoked_at, revoked_by.
    """
    if not is_valid_id(tenant):
        raise CommandError(f"--tenant: must be {TENANT_RULE}", ExitCode.USAGE)
    key, made = operate(load_settings(), _create, tenant, role, note, expires)
    _print_new(key, made, as_json=as_json)


@commands.command("list")
def list_all(tenant: TenantId = None, limit: Limit = 100, as_json: AsJson = False) -> None:
    """List the keys, newest first, never their secrets.

    state: valid; replaced (a rotation has put another in its place, and it is valid until it expires); expired; revoked.
    last used: to a minute or so.

    --json: keys. Each: key_id, tenant_id, role, state, note, created_by, created_at, expires_at, last_used_at, replaced_by,
    revoked_at, revoked_by.
    """
    found = operate(load_settings(), _list, tenant, limit)
    if as_json:
        print_json({"keys": [asdict(one) for one in found]})
        return
    columns = {
        "key": "key_id", "tenant": "tenant_id", "role": "role", "state": "state", "created": "created_at",
        "expires": "expires_at", "last used": "last_used_at", "note": "note",
    }  # fmt: skip
    print_table(columns, found)


@commands.command()
def rotate(
    key_id: KeyId,
    overlap: Annotated[float, age_option("How long the old key stays valid.", OVERLAP_SECONDS)] = OVERLAP_SECONDS,
    expires: Annotated[
        float | None,
        typer.Option(
            parser=parse_age, metavar="AGE", help="Refuse the new key after this time. Left out: as the old one was."
        ),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put a new key in the place of an old one, with its tenant, role and note. Both are valid for the overlap.

    A key that has leaked is revoked, not rotated: create another, and revoke it.

    --json: as `turnstile key create --json`, of the new key.
    """
    old = _find(key_id)
    if old.state != "valid":
        raise CommandError(f"{_says(old)}: only a valid key can be rotated; `turnstile key create` makes another")
    confirm(f"Replace {_says(old)}? It stays valid for {short_duration(overlap)}.", yes=yes)
    key, made = operate(load_settings(), _rotate, key_id, overlap, expires)
    if made is None:
        raise CommandError(f"nothing was changed: {key_id} was rotated or revoked just now")
    _print_new(key, made, as_json=as_json)


@commands.command()
def revoke(key_id: KeyId, yes: Yes = False, as_json: AsJson = False) -> None:
    """Revoke a key: within ten seconds every API process refuses it. Streams that are open go on until their turns end.

    --json: key_id, tenant_id, role, state, note, created_by, created_at, expires_at, last_used_at, replaced_by, revoked_at,
    revoked_by, changed.
    """
    before = _find(key_id)
    changed = False
    if before.state != "revoked":
        confirm(f"Revoke {_says(before)}? Nothing brings it back.", yes=yes)
        changed = operate(load_settings(), _revoke, key_id)
    after = _find(key_id)
    if as_json:
        print_json({**asdict(after), "changed": changed})
    else:
        print_text(_says(after))
    if not changed:
        say("nothing was changed: it is revoked already")


def _make(by: str, lives_seconds: float | None) -> tuple[str, NewKey]:
    text, made = make_key(secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
    return text, NewKey(key_id=made.key_id, digest=made.digest, by=by, lives_seconds=lives_seconds)


def _find(key_id: str) -> ListedKey:
    if not is_key_id(key_id):
        # Not quoted: it may be a whole key.
        raise CommandError(f"KEY_ID: must be {ID_RULE}, the first part of a key", ExitCode.USAGE)
    found = operate(load_settings(), _read, key_id)
    if not found:
        raise CommandError(f"no such key: {key_id}; `turnstile key list` shows all", ExitCode.NOT_FOUND)
    return found[0]


async def _create(
    operator: Operator, tenant_id: str, role: Role, note: str | None, lives_seconds: float | None
) -> tuple[str, KeyRecord]:
    text, new = _make(operator.name, lives_seconds)
    async with operator.database.connection() as connection, connection.transaction():
        made = await create_key(connection, new, tenant_id=tenant_id, role=role, note=note)
        await record(connection, _event(AuditKind.KEY_CREATED, operator, made, reason=note))
    return text, made


async def _rotate(
    operator: Operator, old_key_id: str, overlap_seconds: float, lives_seconds: float | None
) -> tuple[str, KeyRecord | None]:
    text, new = _make(operator.name, lives_seconds)
    async with operator.database.connection() as connection, connection.transaction():
        made = await rotate_key(connection, old_key_id, new, overlap_seconds=overlap_seconds)
        if made is not None:
            reason = f"replaces {old_key_id}"
            await record(connection, _event(AuditKind.KEY_ROTATED, operator, made, reason=reason))
    return text, made


async def _revoke(operator: Operator, key_id: str) -> bool:
    async with operator.database.connection() as connection, connection.transaction():
        revoked = await revoke_key(connection, key_id, by=operator.name)
        if revoked is not None:
            await record(connection, _event(AuditKind.KEY_REVOKED, operator, revoked))
    return revoked is not None


def _event(kind: AuditKind, operator: Operator, key: KeyRecord, *, reason: str | None = None) -> AuditEvent:
    return AuditEvent(
        kind=kind, actor=operator.name, subject=f"key {key.key_id}", tenant_id=key.tenant_id, reason=reason
    )


async def _list(operator: Operator, tenant_id: str | None, limit: int) -> list[ListedKey]:
    return await list_keys(operator.database, tenant_id=tenant_id, limit=limit)


async def _read(operator: Operator, key_id: str) -> list[ListedKey]:
    return await list_keys(operator.database, key_id=key_id, limit=1)


def _print_new(key: str, made: KeyRecord, *, as_json: bool) -> None:
    document: dict[str, Any] = {"key": key, **asdict(made)}
    if as_json:
        print_json(document)
    else:
        print_text(key)
    until = "does not expire" if made.expires_at is None else f"expires {short_time(made.expires_at)}"
    say(f"key {made.key_id} of tenant {made.tenant_id}, role {made.role}, {until}. Store it now: it is not shown again")


def _says(key: ListedKey) -> str:
    return f"key {key.key_id} of tenant {key.tenant_id}, role {key.role}, {key.state}"
