"""The API as `turnstile submit` calls it, and what went wrong in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from turnstile.client import ApiUnreachableError, Client, ClientError, ProblemError, UnauthorizedError
from turnstile.config.settings import Settings
from turnstile.errors import SET_BY_LOCAL_ENV
from turnstile.ops.terminal.exit_codes import CommandError, ExitCode

UNKNOWN_QUEUE = "/problems/unknown-queue"


def connect(settings: Settings) -> Client:
    """A client of the API at `settings.api_url`. It tries each call once: whoever has typed it sees at once what is wrong."""
    return Client(settings.api_url, api_key=settings.api_key, patience_seconds=0)


@contextmanager
def explained(*, keyed: bool, again: str = "") -> Iterator[None]:
    """Raises CommandError for what the client raises. The parameters are those of `explain_refusal`."""
    try:
        yield
    except ClientError as error:
        raise explain_refusal(error, keyed=keyed, again=again) from error


def explain_refusal(error: ClientError, *, keyed: bool, again: str = "") -> CommandError:
    """The line and the exit code. `keyed`: whether the request had a key; `again`: what to do if it may have been done."""
    match error:
        case ApiUnreachableError(sent=False):
            line = f"{error}; start one with `turnstile api`, or set TURNSTILE_API_URL"
            return CommandError(line, ExitCode.UNAVAILABLE)
        case UnauthorizedError():
            refused = "the API does not know this key: correct TURNSTILE_API_KEY"
            missing = f"the API requires a key: set TURNSTILE_API_KEY; {SET_BY_LOCAL_ENV}"
            return CommandError(f"401: {refused if keyed else missing}", ExitCode.USAGE)
        case ProblemError():
            return CommandError(str(error), _code(error))
        case ApiUnreachableError():
            return CommandError(f"{error}{again}", ExitCode.UNAVAILABLE)
        case _:
            return CommandError(str(error), ExitCode.UNAVAILABLE)


def _code(error: ProblemError) -> ExitCode:
    known = {404: ExitCode.NOT_FOUND, 409: ExitCode.FAILED, 429: ExitCode.UNAVAILABLE}
    if error.type == UNKNOWN_QUEUE:
        # 422 has several causes; an unknown queue has its own exit code.
        return ExitCode.NOT_FOUND
    return known.get(error.status, ExitCode.UNAVAILABLE if error.status >= 500 else ExitCode.USAGE)
