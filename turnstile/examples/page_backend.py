"""The back end of a page: it serves the page, and asks for tokens in the page's name. The page calls the API itself.

python -m turnstile.examples.page_backend clients/typescript/examples/plain

Each browser has a session of its own, by a cookie that nobody can guess. A real back end takes the session of whoever has
logged in.
"""

import secrets
import sys

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles

from turnstile.client import AsyncClient
from turnstile.config.settings import Settings

COOKIE = "session"


def make_backend(folder: str, api_url: str, api_key: str | None) -> FastAPI:
    """The application. `folder` has the files of the page; the key needs the role `submit`."""
    backend = FastAPI()
    client = AsyncClient(api_url, api_key=api_key)

    @backend.post("/token")
    async def make_token(request: Request, response: Response) -> dict[str, object]:
        """A token for the session of this browser, and where the API is."""
        session_id = request.cookies.get(COOKIE) or f"chat-{secrets.token_hex(16)}"
        response.set_cookie(COOKIE, session_id, httponly=True, samesite="strict")
        token = await client.session(session_id).make_token(["read", "submit", "cancel"])
        return {**token, "api_url": api_url}

    backend.mount("/", StaticFiles(directory=folder, html=True))
    return backend


if __name__ == "__main__":
    settings = Settings()
    uvicorn.run(make_backend(sys.argv[1], settings.api_url, settings.api_key), port=8000)
