"""Additions to the OpenAPI document that FastAPI can't derive: the manually parsed submit body and the problems."""

from functools import cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from turnstile.producer.http.problems import MEDIA_TYPE, Kind, ProblemBody

_REFERENCE = "#/components/schemas/{model}"


def body_of(model: str) -> dict[str, Any]:
    """The `openapi_extra` of a route that parses its body itself, by one of the models of `describe`."""
    schema = {"$ref": _REFERENCE.format(model=model)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def functions(*ids: str) -> dict[str, Any]:
    """The `openapi_extra` of a route: the ids of its functions in docs/event-flow.md, which has the runbook of each."""
    return {"x-function-ids": list(ids)}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` argument of a route that may respond with these error statuses."""
    return {status: _response(status) for status in statuses}


def describe(app: FastAPI, *bodies: type[BaseModel]) -> None:
    """Completes `app.openapi()` with the problems and the models of `bodies`.

    Does not document the 500, which any operation may return.
    """
    generate = app.openapi

    def complete() -> dict[str, Any]:
        document = generate()
        models: tuple[type[BaseModel], ...] = (*bodies, ProblemBody)
        for model in models:
            schema = model.model_json_schema(ref_template=_REFERENCE)
            document["components"]["schemas"] |= {**schema.pop("$defs", {}), model.__name__: schema}
        return document

    app.openapi = complete  # type: ignore[method-assign]


def serve(app: FastAPI) -> None:
    """Serves the document to everybody."""

    @cache
    def text() -> bytes:
        # FastAPI's own route would make it for each request: a client without a key could occupy the event loop with that.
        return bytes(JSONResponse(app.openapi()).body)

    async def get_document(_: Request) -> Response:
        return Response(text(), media_type="application/json")

    app.add_route("/openapi.json", get_document, include_in_schema=False)


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
