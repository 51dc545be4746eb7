"""The core of a batch: many submits in as few requests as they fit into, each with a result of its own.

A turn that the API can't take now is sent again, before those behind it: the turns of a session keep their order.
"""

from collections.abc import Sequence
from typing import Any, cast

from turnstile.client.asking import ask_until_answered, read_document
from turnstile.client.calls import json_body
from turnstile.client.documents import BatchTurn, Submitted
from turnstile.client.errors import ProblemError, problem
from turnstile.client.exchange import Pause, Request, Steps
from turnstile.client.terms import Terms

ACCEPTED = 202
MOST_TURNS = 500
MOST_BYTES = 1_900_000
"""Of the turns of one request: the API takes 2 MiB."""

Result = Submitted | ProblemError


def submit_batch(turns: Sequence[BatchTurn], keys: Sequence[str], terms: Terms) -> Steps[list[Result]]:
    """Submits the turns. The results are in their order: what was accepted, or why it was not.

    `keys`: for the turns that have none of their own.
    """
    texts = [json_body({"idempotency_key": key, **turn}) for turn, key in zip(turns, keys, strict=True)]
    results: dict[int, Result] = {}
    left = list(range(len(texts)))
    patience = terms.patience()
    while left:
        sent = left[: _that_fit([texts[place] for place in left])]
        body = b'{"turns": [' + b", ".join(texts[place] for place in sent) + b"]}"
        answer = yield from ask_until_answered(Request("POST", "/v1/turns/batch", body=body), terms)
        again, after = [], 0.0
        for place, result in zip(sent, read_document(answer, terms, "results")["results"], strict=True):
            results[place] = _read_result(result)
            seconds = result.get("retry_after_seconds")
            if seconds is not None:
                again.append(place)
                after = max(after, seconds)
        left = again + left[len(sent) :]
        if len(again) < len(sent):
            patience.restore()
        if not again:
            continue
        pause = patience.after_failure(answer.took, after)
        if pause is None:
            # Those behind them were not sent: they have to stay behind.
            held_back = results[again[0]]
            results.update({place: held_back for place in left if place not in results})
            break
        yield Pause(pause)
    return [results[place] for place in range(len(texts))]


def _that_fit(texts: Sequence[bytes]) -> int:
    """How many turns the next request may have. One at least: the API says what is wrong with one that is too long."""
    size = 0
    for many, text in enumerate(texts[:MOST_TURNS]):
        size += len(text)
        if size > MOST_BYTES:
            return max(1, many)
    return min(len(texts), MOST_TURNS)


def _read_result(result: Any) -> Result:
    if result["status"] == ACCEPTED:
        return cast("Submitted", {**result["turn"], "replayed": result["replayed"]})
    return problem(result["problem"], result["status"], result.get("retry_after_seconds"))
