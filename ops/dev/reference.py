"""Generates reference pages from the code: `docs/settings.md` and `docs/exit-codes.md`.

python -m turnstile.ops.dev.reference      writes the pages
"""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

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
        _row(str(field.validation_alias or f"{PREFIX}{name.upper()}"), name, field.default, meaning)
        for (name, field), meaning in zip(Settings.model_fields.items(), _meanings(Settings), strict=True)
    ]
    queues = [
        _row(name, name, REQUIRED if field.is_required() else field.default, meaning)
        for (name, field), meaning in zip(QueueSettings.model_fields.items(), _meanings(QueueSettings), strict=True)
    ]
    meanings = {**MEANINGS, EXIT_STUCK: "a worker's event loop was stuck; the watchdog ended it"}
    codes = [f"| {int(code)} | {meaning} |" for code, meaning in sorted(meanings.items())]
    return {
        DOCS / "settings.md": SETTINGS.format(settings="\n".join(settings), queues="\n".join(queues)),
        DOCS / "exit-codes.md": EXIT_CODES.format(codes="\n".join(codes)),
    }


def _meanings(model: type[BaseModel]) -> list[str]:
    """The docstring of each field, in the order of the class. Raises ValueError for a field without one."""
    [declared] = (one for one in ast.parse(inspect.getsource(model)).body if isinstance(one, ast.ClassDef))
    found = []
    for statement, following in zip(declared.body, declared.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found.append(re.sub(r"\s+", " ", text).strip())
            case ast.AnnAssign(target=ast.Name(id=name)), _ if name in model.model_fields:
                raise ValueError(f"{model.__name__}.{name} has no docstring")
    return found


def _row(variable: str, name: str, default: Any, meaning: str) -> str:
    return f"| `{variable}` | {_default(name, default)} | {meaning} |"


def _default(name: str, default: Any) -> str:
    if default is REQUIRED:
        return "required"
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


REQUIRED = object()
"""Marks a setting without a default."""

UNITS = {"_seconds": " s", "_bytes": " bytes", "_days": " days"}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, "utf-8")
