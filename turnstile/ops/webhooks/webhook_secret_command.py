"""`turnstile webhook-secret`: show, list, rotate and revoke the secrets that sign a tenant's webhooks.

No process needs a restart. The secrets are derived from `TURNSTILE_WEBHOOK_SECRETS`, which must be the relay's. The table has
only which of them sign.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from turnstile.audit.event import AuditKind
from turnstile.config.settings import Settings
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode
from turnstile.ops.terminal.operator_access import Operator, load_settings, operate
from turnstile.ops.terminal.options import DAY_SECONDS, AsJson, TenantId, Yes, age_option, confirm, make_typer
from turnstile.ops.terminal.output import Columns, print_json, print_table, print_text, say, short_duration, short_time
from turnstile.statements.webhook_secrets import SecretNumber, read_secret_numbers, revoke_secret, rotate_secret
from turnstile.turn.identifiers import ID_RULE, is_valid_id
from turnstile.webhooks.signature import derive_secret

OVERLAP_SECONDS = 7.0 * DAY_SECONDS

commands = make_typer(help="The secrets that sign each tenant's webhooks.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="The tenant whose webhooks it signs.")]


@commands.command()
def show(tenant: Tenant, as_json: AsJson = False) -> None:
    """Print a tenant's secrets that sign, the newest last. The receiver of its webhooks verifies them with one of these.

    --json: secrets. Each: tenant_id, number, signs_until (null: it has no end), signs, secret.
    """
    settings = _settings(tenant)
    _print_secrets(settings, operate(settings, _show, tenant), as_json=as_json)


@commands.command("list")
def list_all(tenant: TenantId = None, as_json: AsJson = False) -> None:
    """List which secrets sign, and until when, without the secrets. Tenants that have had no rotation are left out: their first
    one signs.

    --json: secrets. Each: tenant_id, number, signs_until (null: it has no end), signs.
    """
    found = operate(load_settings(), _list, tenant)
    if as_json:
        print_json({"secrets": [asdict(one) for one in found]})
        return
    columns: Columns = {
        "tenant": "tenant_id",
        "number": "number",
        "state": lambda one: "signs" if one.signs else "ended",
        "until": "signs_until",
    }
    print_table(columns, found)


@commands.command()
def rotate(
    tenant: Tenant,
    overlap: Annotated[float, age_option("How long the secret before signs, too.", OVERLAP_SECONDS)] = OVERLAP_SECONDS,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Begin to sign with a tenant's next secret, and print it. Each webhook has both signatures during the overlap: the receiver
    accepts it before and after it changes to the new secret.

    --json: secrets, with the new one. Each: tenant_id, number, signs_until (null: it has no end), signs, secret.
    """
    settings = _settings(tenant)
    confirm(f"Rotate the secret of tenant {tenant}? The one before signs for {short_duration(overlap)} more.", yes=yes)
    number = operate(settings, _rotate, tenant, overlap)
    if number is None:
        raise CommandError("nothing was changed: another command has rotated it just now")
    made = SecretNumber(tenant_id=tenant, number=number, signs_until=None, signs=True)
    _print_secrets(settings, [made], as_json=as_json)


@commands.command()
def revoke(
    tenant: Tenant,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, help="As `turnstile webhook-secret list` shows it.")
    ],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Stop signing at once with a secret that a rotation has replaced: it has leaked, or the receiver has changed.

    --json: tenant_id, number, changed.
    """
    settings = load_settings()
    _check_tenant(tenant)
    confirm(
        f"Stop signing with secret {number} of tenant {tenant}? A receiver that has no other refuses then.", yes=yes
    )
    changed = operate(settings, _revoke, tenant, number)
    if as_json:
        print_json({"tenant_id": tenant, "number": number, "changed": changed})
    else:
        print_text(f"secret {number} of tenant {tenant} {'signs no more' if changed else 'was not changed'}")
    if not changed:
        say("it is the newest (`turnstile webhook-secret rotate` replaces it), has ended before, or does not exist")
        raise typer.Exit(ExitCode.FAILED)


def _settings(tenant: str) -> Settings:
    _check_tenant(tenant)
    settings = load_settings()
    if not settings.webhook_secrets:
        raise CommandError("TURNSTILE_WEBHOOK_SECRETS is not set: set it as the relay has it", ExitCode.USAGE)
    return settings


def _check_tenant(tenant: str) -> None:
    if not is_valid_id(tenant):
        raise CommandError(f"--tenant: must be {ID_RULE}", ExitCode.USAGE)


def _print_secrets(settings: Settings, numbers: Sequence[SecretNumber], *, as_json: bool) -> None:
    document: list[dict[str, Any]] = [
        {**asdict(one), "secret": derive_secret(root, one.tenant_id, one.number)}
        for one in numbers
        for root in reversed(settings.webhook_secrets)
    ]
    if as_json:
        print_json({"secrets": document})
        return
    for one in document:
        until = f"until {short_time(one['signs_until'])}" if one["signs_until"] else "without an end"
        say(f"secret {one['number']} of tenant {one['tenant_id']} signs {until}:")
        print_text(one["secret"])


async def _show(operator: Operator, tenant_id: str) -> list[SecretNumber]:
    await operator.audit(AuditKind.WEBHOOK_SECRET_SHOWN, "webhook secrets", tenant_id=tenant_id)
    return [one for one in await read_secret_numbers(operator.database, tenant_id) if one.signs]


async def _list(operator: Operator, tenant_id: str | None) -> list[SecretNumber]:
    return await read_secret_numbers(operator.database, tenant_id)


async def _rotate(operator: Operator, tenant_id: str, overlap_seconds: float) -> int | None:
    return await rotate_secret(operator.database, tenant_id, overlap_seconds=overlap_seconds, by=operator.name)


async def _revoke(operator: Operator, tenant_id: str, number: int) -> bool:
    return await revoke_secret(operator.database, tenant_id, number, by=operator.name)
