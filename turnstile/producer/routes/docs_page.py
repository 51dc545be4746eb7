"""`/docs`: Swagger UI on the OpenAPI document. Its files are installed with Turnstile: nothing comes from another host."""

from importlib.resources import files
from pathlib import Path
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, Response

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Turnstile API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
# By default, Swagger UI shows the document to a validator of its makers.
START = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#swagger-ui", validatorUrl: null, deepLinking: true});\n'

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page has a field for the API key. This policy keeps its scripts from sending the key anywhere else."""

routes = APIRouter(include_in_schema=False)


@routes.get("/docs")
async def get_page() -> HTMLResponse:
    return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})


@routes.get("/docs/start.js")
async def get_start() -> Response:
    return Response(START, media_type="text/javascript")


@routes.get("/docs/{name}")
async def get_file(name: Literal["swagger-ui.css", "swagger-ui-bundle.js"]) -> FileResponse:
    return FileResponse(Path(str(files("fastapi_offline") / "static" / name)))
