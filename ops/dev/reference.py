"""Generates reference pages from the code: `docs/settings.md` and `docs/exit-codes.md`.

python -m turnstile.ops.dev.reference      writes the pages
"""

from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import PREFIX, Settings
from turnstile.ops.terminal.exit_codes import MEANINGS
from turnstile.worker.process.watchdog import EXIT_STUCK

DOCS = Path(__file__).resolve().parents[2] / "docs"

SETTINGS = """# Settings

Generated from `turnstile/config/settings.py` by `python -m turnstile.ops.dev.reference`.

A process reads its settings once, when it starts, and refuses to start if one is wrong. The AWS SDK's own variables apply
as well. A variable `TURNSTILE_…` that is no setting is named in one line on standard error. It refuses
nothing: after a rollback the environment still has the variables of the newer release.

Every option of a command is a variable, too: `TURNSTILE_REDRIVE_LIMIT` is `turnstile redrive --limit`. With
`TURNSTILE_DEBUG=1` an error is a stack trace in place of a line.

| variable | default | meaning |
|---|---|---|
{settings}

## Queues

Several queues are declared in `turnstile.toml` ([example](../turnstile.toml.example)) or in `TURNSTILE_QUEUES`.

| field | default | meaning |
|---|---|---|
{queues}
"""

EXIT_CODES = """# Exit codes of `turnstile`

Generated from `ops/terminal/exit_codes.py` by `python -m turnstile.ops.dev.reference`.

| code | meaning |
|---|---|
{codes}
"""


def pages() -> dict[Path, str]:
    """The content of each page, by path."""
    settings = [
        _row(str(field.validation_alias or f"{PREFIX}{name.upper()}"), name, field)
        for name, field in Settings.model_fields.items()
    ]
    queues = [_row(name, name, field) for name, field in QueueSettings.model_fields.items()]
    meanings = {**MEANINGS, EXIT_STUCK: "a worker's event loop was stuck; the watchdog ended it"}
    codes = [f"| {int(code)} | {meaning} |" for code, meaning in sorted(meanings.items())]
    return {
        DOCS / "settings.md": SETTINGS.format(settings="\n".join(settings), queues="\n".join(queues)),
        DOCS / "exit-codes.md": EXIT_CODES.format(codes="\n".join(codes)),
    }


def _row(variable: str, name: str, field: FieldInfo) -> str:
    """Raises ValueError for a field without a docstring."""
    if field.description is None:
        raise ValueError(f"{name} has no docstring")
    default = "required" if field.is_required() else _default(name, field.default)
    return f"| `{variable}` | {default} | {' '.join(field.description.split())} |"


def _default(name: str, default: Any) -> str:
    match default:
        case None | "" | ():
            return "none"
        case bool():
            return "on" if default else "off"
        case int() | float():
            unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
            return f"{default}" if name.endswith("_port") else f"{default:,g}{unit}"
        case _:
            return f"`{default}`"


UNITS = {"_seconds": " s", "_bytes": " bytes", "_days": " days"}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, "utf-8")
