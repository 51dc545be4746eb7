"""A wrong command line in one line: which argument, what is wrong with it, and the help to read."""

from typing import Any

import typer

# Typer has pydantic convert the arguments; its sentences are for programmers. The keys are the types of its errors.
_WORDS = {
    "uuid_parsing": "{input!r} is not a turn id",
    "int_parsing": "{input!r} is not a whole number",
    "float_parsing": "{input!r} is not a number",
    "greater_than_equal": "must be at least {ge}, not {input}",
    "less_than_equal": "must be at most {le}, not {input}",
    "value_error": "{error}",
}


def explain_usage(error: Any) -> str | None:
    """The line for a usage error of Typer; None if it is another error, or the page that a group without a command shows."""
    said = error.format_message() if hasattr(error, "format_message") else "\n"
    if "\n" in said:
        return None
    if isinstance(error, typer.BadParameter) and error.message:
        said = ": ".join(filter(None, (_name(error), _translate(error.__cause__) or error.message)))
    else:
        said = f"{said[0].lower()}{said[1:]}"
    said = said.rstrip(".")
    return said if error.ctx is None else f"{said} (see {error.ctx.command_path} --help)"


def _name(error: typer.BadParameter) -> str:
    """The name of the argument (`--limit`, `TURN`) or of the variable that it came from; empty if the error is about several."""
    if error.param is not None and error.ctx is not None and error.param.name is not None and error.param.envvar:
        source = error.ctx.get_parameter_source(error.param.name)
        if source is not None and source.name == "ENVIRONMENT":
            return str(error.param.envvar)
    hint = error.param_hint or (error.param.get_error_hint() if error.param is not None else "")
    return str(hint).partition(" ")[0].strip("'[]")


def _translate(cause: Any) -> str | None:
    if not hasattr(cause, "errors"):
        return None
    first = cause.errors()[0]
    words = _WORDS.get(first["type"])
    return words and words.format(input=first["input"], **first.get("ctx", {}))
