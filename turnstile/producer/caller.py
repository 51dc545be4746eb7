"""Who calls: the tenant of a request's key, and its place among the requests in progress."""

from contextlib import ExitStack
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.types import Scope

from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.http.problems import Kind, ProblemError

PREFIX = "/v1/"
"""Prefix of the paths that need a key."""
TENANT = "turnstile.tenant"
"""Key of the scope: the caller's tenant."""

HELD = "turnstile.held"
"""Key of a request's scope: the ExitStack that is closed when the response has ended."""

_bearer = HTTPBearer(
    auto_error=False, description="One of the keys in TURNSTILE_API_KEYS. If no keys are set, none is needed."
)


def identify(backend: Backend, scope: Scope) -> str:
    """The tenant of the bearer key of this scope's request. Raises the 401.

    Called before the routing: FastAPI parses the query before the first dependency runs, and a request without a key
    must not cost that.
    """
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, credentials = get_authorization_scheme_param(given[0].decode("latin-1") if len(given) == 1 else None)
    key = credentials if scheme.lower() == "bearer" and credentials else None
    tenant = backend.api_keys.find_tenant(key)
    if tenant is None:
        backend.refused_keys.note(scope, reason="missing" if key is None else "unknown")
        challenge = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(Kind.UNAUTHORIZED, "send `Authorization: Bearer <key>`, once", headers=challenge)
    return tenant


def admit(backend: Backend, scope: Scope, tenant: str) -> None:
    """Counts the request of this scope as one in progress, until its response has ended. Raises NoPlaceError."""
    held: ExitStack = scope[HELD]
    held.enter_context(backend.requests.take(tenant))


# A coroutine although it awaits nothing, like `find_backend`.
async def find_tenant(backend: FoundBackend, request: Request, _: Annotated[object, Depends(_bearer)]) -> str:
    """The caller's tenant, which `identify` has found, and whose request is admitted. Raises NoPlaceError.

    The last dependency is only for the OpenAPI document.
    """
    tenant = cast("str", request.scope[TENANT])
    admit(backend, request.scope, tenant)
    return tenant


Tenant = Annotated[str, Depends(find_tenant)]
