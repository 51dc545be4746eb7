"""Additions to the OpenAPI document that FastAPI can't derive: the manually parsed submit body and the problems."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from turnstile.producer.http.problems import MEDIA_TYPE, Kind, ProblemBody
from turnstile.producer.submit.turn_request import TurnRequest

_REFERENCE = "#/components/schemas/{model}"

SUBMIT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model="TurnRequest")}}},
    }
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` argument of a route that may respond with these error statuses."""
    return {status: _response(status) for status in statuses}


def describe(app: FastAPI) -> None:
    """Completes `app.openapi()`. Does not document the 500, which any operation may return."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            for model in (TurnRequest, ProblemBody):
                schema = model.model_json_schema(ref_template=_REFERENCE)
                schemas |= schema.pop("$defs", {})
                schemas[model.__name__] = schema
            _drop_validation_error(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]


def _drop_validation_error(document: dict[str, Any]) -> None:
    # FastAPI documents its own 422 for every path parameter, even if any text is accepted and unknown values give a 404.
    for operations in document["paths"].values():
        for operation in operations.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _response(status: int) -> dict[str, Any]:
    kinds = [kind for kind in Kind if kind.status == status]
    response: dict[str, Any] = {
        "description": "; ".join(f"{kind.title} (`{kind.type}`)" for kind in kinds),
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="ProblemBody")}}},
    }
    match status:
        case 429 | 503:
            response["headers"] = {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}}
        case 401:
            response["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return response
