"""The core of each call that has one result, or pages of them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote

from turnstile.client.asking import ask_until_answered, asked_pause, read_document
from turnstile.client.documents import (
    ENDED,
    BrowserToken,
    CancelAnswer,
    Part,
    SessionCancelAnswer,
    SessionDetail,
    Submitted,
    Turn,
    TurnOptions,
    Verb,
)
from turnstile.client.errors import NotFoundError
from turnstile.client.exchange import Pause, Request, Steps, Tell
from turnstile.client.terms import Terms

LONGEST_WAIT_SECONDS = 20.0
"""Of one request: below the time-outs of common proxies."""
MARGIN_SECONDS = 10.0
PAGE = 100
"""Entries of a page: the most that the API gives."""


def submit(session_id: str, content: Any, key: str, options: TurnOptions, terms: Terms) -> Steps[Submitted]:
    """Submits a turn, once: each repeat has the same `key`."""
    request = submit_request(f"{session_path(session_id)}/turns", content, key, options)
    answer = yield from ask_until_answered(request, terms)
    replayed = answer.headers.get("idempotency-replayed") == "true"
    return cast("Submitted", {**read_document(answer, terms, "id"), "replayed": replayed})


def read(turn_id: str, terms: Terms) -> Steps[Turn]:
    """The turn as it is now."""
    answer = yield from ask_until_answered(Request("GET", turn_path(turn_id)), terms)
    return cast("Turn", read_document(answer, terms, "status"))


def wait(turn_id: str, seconds: float, terms: Terms) -> Steps[Turn]:
    """The turn when it has ended, or as it is when the time is up."""
    left = seconds
    while True:
        longest = max(0.0, min(left, LONGEST_WAIT_SECONDS))
        params = {"wait": longest} if longest else {}
        request = Request("GET", turn_path(turn_id), params=params, silence_seconds=longest + MARGIN_SECONDS)
        answer = yield from ask_until_answered(request, terms)
        turn = cast("Turn", read_document(answer, terms, "status"))
        left -= answer.took
        if turn["status"] in ENDED or left <= 0:
            return turn
        if answer.took < longest / 2:
            # The API has no place for one more wait.
            pause = min(asked_pause(answer) or 1.0, left)
            yield Pause(pause)
            left -= pause


def cancel(turn_id: str, terms: Terms) -> Steps[CancelAnswer]:
    """Cancels the turn, also before it is submitted."""
    answer = yield from ask_until_answered(Request("POST", f"{turn_path(turn_id)}/cancel"), terms)
    return cast("CancelAnswer", read_document(answer, terms, "status"))


def cancel_session(session_id: str, terms: Terms) -> Steps[SessionCancelAnswer]:
    """Cancels all open turns of the session."""
    answer = yield from ask_until_answered(Request("POST", f"{session_path(session_id)}/cancel"), terms)
    return cast("SessionCancelAnswer", read_document(answer, terms))


def erase(session_id: str, terms: Terms) -> Steps[bool]:
    """Erases the session. False: nothing of it is left."""
    try:
        yield from ask_until_answered(Request("DELETE", session_path(session_id)), terms)
    except NotFoundError:
        # Also if the response to an earlier try was lost: then the API has done it.
        return False
    return True


def make_token(session_id: str, verbs: Sequence[Verb], terms: Terms) -> Steps[BrowserToken]:
    """A token with which a page may call the API for this session."""
    body = json_body({"session_id": session_id, "verbs": list(verbs)})
    answer = yield from ask_until_answered(Request("POST", "/v1/tokens", body=body), terms)
    return cast("BrowserToken", read_document(answer, terms, "token"))


def list_turns(session_id: str | None, wanted: Mapping[str, str | None], terms: Terms) -> Steps[None]:
    """Tells the turns, newest first."""
    path = "/v1/turns" if session_id is None else f"{session_path(session_id)}/turns"
    return _tell_pages(path, "turns", wanted, terms, newest_last=False)


def list_sessions(terms: Terms) -> Steps[None]:
    """Tells the sessions, newest turn first."""
    return _tell_pages("/v1/sessions", "sessions", {}, terms, newest_last=False)


def read_session(session_id: str, include: Sequence[Part], terms: Terms) -> Steps[SessionDetail]:
    """The session as a page shows it."""
    params = {"include": ",".join(include)} if include else {}
    answer = yield from ask_until_answered(Request("GET", session_path(session_id), params=params), terms)
    return cast("SessionDetail", read_document(answer, terms))


def list_messages(session_id: str, terms: Terms) -> Steps[None]:
    """Tells the messages, newest first."""
    return _tell_pages(f"{session_path(session_id)}/messages", "messages", {}, terms, newest_last=True)


def submit_request(path: str, content: Any, key: str, options: TurnOptions) -> Request:
    return Request("POST", path, headers={"Idempotency-Key": key}, body=json_body({"input": content, **options}))


def _tell_pages(
    path: str, name: str, wanted: Mapping[str, str | None], terms: Terms, *, newest_last: bool
) -> Steps[None]:
    params: dict[str, str | float] = {key: value for key, value in wanted.items() if value is not None}
    params["limit"] = PAGE
    while True:
        answer = yield from ask_until_answered(Request("GET", path, params=dict(params)), terms)
        page = read_document(answer, terms, name, "next_cursor")
        for entry in reversed(page[name]) if newest_last else page[name]:
            yield Tell(entry)
        if page["next_cursor"] is None:
            return
        params["cursor"] = page["next_cursor"]


def json_body(document: Mapping[str, Any]) -> bytes:
    # ASCII, so that half a surrogate pair arrives, and the API can say what is wrong with it.
    return json.dumps(document, default=_as_text).encode()


def _as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"not JSON: {type(value).__name__}")


def turn_path(turn_id: str) -> str:
    return f"/v1/turns/{quote(str(turn_id), safe='')}"


def session_path(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"
