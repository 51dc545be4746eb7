"""Who calls: what a request's key says, which role a route needs, and the caller's place among the requests in progress."""

from contextlib import ExitStack
from typing import Annotated, cast

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer, SecurityScopes
from fastapi.security.utils import get_authorization_scheme_param
from starlette.types import Scope

from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.access.verb import Verb
from turnstile.errors import DatabaseUnfitError
from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.credentials.credentials import ANYBODY
from turnstile.producer.credentials.refusal import Refused
from turnstile.producer.http.local_only import is_of_this_machine, refuse_other_sites
from turnstile.producer.http.problems import Kind, ProblemError, unavailable

PREFIX = "/v1/"
"""Prefix of the paths that need a key."""
CALLER = "turnstile.caller"
"""Key of the scope: the Caller."""

HELD = "turnstile.held"
"""Key of a request's scope: the ExitStack that is closed when the response has ended."""

_bearer = HTTPBearer(
    auto_error=False,
    description="A key of `turnstile key create`, one of TURNSTILE_API_KEYS, a JWT, or a token of `POST /v1/tokens`. The "
    "scope of an operation is the role that it needs: `read`, `submit`, `operate` or `admin`. Each includes those before it.",
)


async def identify(backend: Backend, scope: Scope) -> Caller:
    """Who sends the request of this scope. Raises the 401, the 421, or the error of a table that can't be read (503).

    Called before the routing: FastAPI parses the query before the first dependency runs, and a request without a key
    must not cost that.
    """
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, credentials = get_authorization_scheme_param(given[0].decode("latin-1") if len(given) == 1 else None)
    key = credentials if scheme.lower() == "bearer" and credentials else None
    try:
        found = await backend.credentials.check(key)
    except DatabaseUnfitError as error:
        # What ails the database is told to those who may call, and to a developer whose API has no keys.
        if backend.settings.may_be_open and is_of_this_machine(scope["headers"]):
            raise
        raise _unchecked() from error
    if isinstance(found, Refused):
        backend.refused_keys.note(scope, reason=found.reason.value, key_id=found.key_id)
        challenge = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(Kind.UNAUTHORIZED, "send `Authorization: Bearer <key>`, once", headers=challenge)
    if found is ANYBODY and not backend.settings.api_serves_strangers_without_keys:
        refuse_other_sites(scope["headers"])
    backend.tenants.note(found.tenant_id)
    return found


async def refuse_strangers(backend: Backend, scope: Scope) -> None:
    """For a path that needs no key: refuses another website where no path needs one, as `identify` does.

    Raises the 421, or the error of a table that can't be read (503).
    """
    try:
        is_open = not await backend.credentials.are_needed()
    except DatabaseUnfitError as error:
        raise _unchecked() from error
    if is_open and not backend.settings.api_serves_strangers_without_keys:
        refuse_other_sites(scope["headers"])


def _unchecked() -> ProblemError:
    return unavailable("keys can't be checked now; try again after `Retry-After` seconds")


def require(caller: Caller, needed: Role, verb: Verb) -> None:
    """Raises the 403 if the caller's role does not include the one that is needed, or its token has not the verb."""
    if not caller.role.includes(needed):
        detail = f"this needs the role `{needed}`, and the key has the role `{caller.role}`"
        raise ProblemError(Kind.FORBIDDEN, detail)
    if caller.limit is not None and verb not in caller.limit.verbs:
        raise ProblemError(Kind.FORBIDDEN, f"this needs a token with the verb `{verb}`")


def admit(backend: Backend, scope: Scope, caller: Caller) -> None:
    """Counts the request of this scope as one in progress, until its response has ended. Raises NoPlaceError."""
    held: ExitStack = scope[HELD]
    held.enter_context(backend.requests.take(caller.tenant_id))


class NeedsRole:
    """The dependency of a route: finds the caller, and refuses one whose role does not suffice (403).

    `verb`: the verb that a browser token needs for the route. `routes.session_limit` keeps the token in its session.
    """

    def __init__(self, verb: Verb) -> None:
        self._verb = verb

    # A coroutine although it awaits nothing, like `find_backend`.
    async def __call__(
        self, backend: FoundBackend, request: Request, needed: SecurityScopes, _: Annotated[object, Depends(_bearer)]
    ) -> Caller:
        """The caller, whom `identify` has found, and whose request is admitted. Raises the 403, or NoPlaceError.

        The last dependency is only for the OpenAPI document.
        """
        caller = cast("Caller", request.scope[CALLER])
        for role in needed.scopes:
            require(caller, Role(role), self._verb)
        admit(backend, request.scope, caller)
        return caller


Reader = Annotated[Caller, Security(NeedsRole(Verb.READ), scopes=[Role.READ.value])]
"""A caller that may read. Each route under `/v1` has a parameter of one of these types: the role that it needs."""
Submitter = Annotated[Caller, Security(NeedsRole(Verb.SUBMIT), scopes=[Role.SUBMIT.value])]
Canceller = Annotated[Caller, Security(NeedsRole(Verb.CANCEL), scopes=[Role.SUBMIT.value])]
Operator = Annotated[Caller, Security(NeedsRole(Verb.CANCEL), scopes=[Role.OPERATE.value])]
