"""The chat page and its server: `python web.py`, then open http://127.0.0.1:8000.

Turnstile's key stays here. The page gets a token, which is for one session and a quarter of an hour, and calls the API itself.
"""

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web
from turnstile.client import AsyncClient, ProblemError

API = os.environ.get("TURNSTILE_API_URL", "http://127.0.0.1:8080")
PAGE = Path(__file__).with_name("page.html")
PORT = int(os.environ.get("PORT", "8000"))
TURNSTILE = web.AppKey("TURNSTILE", AsyncClient)


async def show_page(request: web.Request) -> web.FileResponse:
    response = web.FileResponse(PAGE)
    if "session" not in request.cookies:
        # In place of a login: whoever has the cookie has the session. Use your own users and sessions here.
        response.set_cookie("session", f"chat-{uuid.uuid4().hex}", httponly=True, samesite="Strict")
    return response


async def make_token(request: web.Request) -> web.Response:
    """What the page needs to call the API in the name of its session."""
    try:
        session = request.app[TURNSTILE].session(request.cookies.get("session", ""))
    except ValueError:
        return web.json_response({"title": "there is no session: open the page first"}, status=400)
    try:
        token = await session.make_token(["read", "submit", "cancel"])
    except ProblemError as problem:
        return web.json_response(problem.document, status=problem.status)
    return web.json_response({"api": API, **token})


async def open_turnstile(app: web.Application) -> AsyncIterator[None]:
    async with AsyncClient(API, api_key=os.environ["TURNSTILE_API_KEY"]) as app[TURNSTILE]:
        yield


def main() -> None:
    if "TURNSTILE_API_KEY" not in os.environ:
        raise SystemExit('TURNSTILE_API_KEY is not set: eval "$(turnstile local env)"')
    app = web.Application()
    app.router.add_get("/", show_page)
    app.router.add_post("/token", make_token)
    app.cleanup_ctx.append(open_turnstile)
    web.run_app(app, host="127.0.0.1", port=PORT)


if __name__ == "__main__":
    main()
