"""One request and its answer: repeated while the API is away or has no room, and no longer than the client has patience.

Only requests that may be repeated come here: reads, cancels, and submits with an Idempotency-Key.
"""

import json
from typing import Any

from turnstile.client.errors import ApiUnreachableError, ClientError, UnexpectedAnswerError, problem
from turnstile.client.exchange import Answer, Broken, Pause, Request, Steps, ask
from turnstile.client.terms import Terms

AWAY = frozenset({502, 503, 504})
"""What a proxy answers, too, when the process behind it is away."""
NO_ROOM = 429


def ask_until_answered(request: Request, terms: Terms) -> Steps[Answer]:
    """The response of the API, whose status is 2xx. Raises ClientError."""
    patience = terms.patience()
    arrived = False
    while True:
        outcome = yield from ask(request)
        if isinstance(outcome, Answer) and not may_repeat(outcome):
            return accept(outcome, terms)
        arrived |= isinstance(outcome, Broken) and outcome.sent
        pause = patience.after_failure(outcome.took, asked_pause(outcome))
        if pause is None:
            raise failure(outcome, terms, arrived=arrived)
        yield Pause(pause)


def may_repeat(answer: Answer) -> bool:
    """Whether the same request may do better a little later."""
    return answer.status in AWAY or (answer.status == NO_ROOM and asked_pause(answer) is not None)


def asked_pause(outcome: Answer | Broken) -> float | None:
    """After how many seconds the API asks to come back; None if it does not say."""
    if isinstance(outcome, Broken):
        return None
    text = outcome.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def accept(answer: Answer, terms: Terms) -> Answer:
    """The answer. Raises ClientError unless its status is 2xx."""
    if 200 <= answer.status < 300:
        return answer
    raise failure(answer, terms)


def failure(outcome: Answer | Broken, terms: Terms, *, arrived: bool = False) -> ClientError:
    """What to raise for a request that was not answered, or was refused. `arrived`: an earlier try may have reached the API."""
    if isinstance(outcome, Broken):
        return ApiUnreachableError(terms.url, outcome.reason, sent=outcome.sent or arrived)
    try:
        document = json.loads(outcome.body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not str(document.get("type", "")).startswith("/problems/"):
        return UnexpectedAnswerError(terms.url, outcome.status)
    return problem(document, outcome.status, asked_pause(outcome))


def read_document(answer: Answer, terms: Terms, *names: str) -> Any:
    """The JSON object of an answer, which has these members. Raises UnexpectedAnswerError."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not document.keys() >= set(names):
        raise UnexpectedAnswerError(terms.url, answer.status)
    return document
