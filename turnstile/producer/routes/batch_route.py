"""`POST /v1/turns/batch`: many submits in one request, each with a result of its own."""

import asyncio
import secrets
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from turnstile.access.caller import Caller
from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.batch_intake import Outcome
from turnstile.producer.caller import Submitter
from turnstile.producer.http.problems import Kind, ProblemBody, ProblemError, describe
from turnstile.producer.http.request_body import read_json_body
from turnstile.producer.routes.error_handlers import translate
from turnstile.producer.routes.openapi import body_of, functions, problems
from turnstile.producer.routes.session_limit import stay_in_session
from turnstile.producer.routes.submit_headers import Traceparent
from turnstile.producer.routes.turn_responses import SubmittedTurn, submitted
from turnstile.statements.submit import Accepted, Submission
from turnstile.submission.turn_batch import MOST_TURNS, read_batched_turn, split_batch
from turnstile.submission.turn_request import RANDOM_BITS

MOST_BYTES = 2 * 1024 * 1024
"""Of the body; more only where a single submit may have more."""
READ_AT_A_TIME = 20
"""Turns that are read before other requests have their turn."""

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


class AcceptedTurn(BaseModel):
    """A turn of a batch that was accepted. `replayed`: an earlier, equal request had made it."""

    status: Literal[202] = 202
    replayed: bool
    turn: SubmittedTurn


class RefusedTurn(BaseModel):
    """A turn of a batch that was refused, with the status and the problem of a single submit.

    `retry_after_seconds`: it was not taken now, nor were those behind it in its session. Send them again after so many seconds,
    in the same order. Without it, the turn has to be changed first.
    """

    status: Annotated[int, Field(ge=400, le=599)]
    problem: ProblemBody
    retry_after_seconds: int | None = None


class BatchAnswer(BaseModel):
    """The results of a batch, in the order of its turns."""

    results: list[AcceptedTurn | RefusedTurn]


@v1.post(
    "/turns/batch",
    status_code=200,
    tags=["turns"],
    summary="Submit many turns",
    response_model=None,
    responses={**problems(400, 408, 413, 415, 422), 200: {"model": BatchAnswer}},
    openapi_extra=body_of("TurnBatch") | functions("F1", "F2"),
    description=f"""
Up to {MOST_TURNS} submits, and {MOST_BYTES // 1024**2} MiB, in one request. Each turn has the fields of a submit, its session and
perhaps an idempotency key, and gets the result that a submit of its own would get: one that is refused harms no other. The turns
of a session keep the order that they have here. If one can't be taken now, those behind it in its session are put off, too.

Each turn counts as a submit against the rate limits and the caps on open turns.
""".strip(),
)
async def submit_batch(
    backend: FoundBackend, caller: Submitter, request: Request, traceparent: Traceparent = None
) -> JSONResponse:
    limit = max(MOST_BYTES, backend.settings.max_body_bytes)
    texts = split_batch(await read_json_body(request, limit))
    read: list[Submission | ProblemError] = []
    for number, text in enumerate(texts, 1):
        try:
            read.append(await _read(backend, caller, request, text, traceparent))
        except Exception as error:
            read.append(translate(error, request.url.path, request.app.state))
        if number % READ_AT_A_TIME == 0:
            await asyncio.sleep(0)
    accepted = await backend.batches.accept(caller, [one for one in read if isinstance(one, Submission)])
    outcomes = iter(accepted)
    results = [_result(next(outcomes) if isinstance(one, Submission) else one, request) for one in read]
    return JSONResponse({"results": results})


async def _read(backend: Backend, caller: Caller, request: Request, text: bytes, traceparent: str | None) -> Submission:
    """One turn of the batch. Raises what a single submit raises before it commits."""
    limit = backend.settings.max_body_bytes
    if len(text) > limit:
        raise ProblemError(Kind.BODY_TOO_LARGE, f"{limit} bytes at most")
    submission = read_batched_turn(
        backend.settings,
        caller.tenant_id,
        text,
        now=datetime.now(UTC),
        random_bits=secrets.randbits(RANDOM_BITS),
        traceparent=traceparent,
        xray=request.headers.get("x-amzn-trace-id") if backend.settings.xray else None,
    )
    await stay_in_session(backend, caller, {"session_id": submission.session_id})
    return submission


def _result(outcome: Outcome | ProblemError, request: Request) -> dict[str, Any]:
    """An AcceptedTurn or a RefusedTurn."""
    if isinstance(outcome, Accepted):
        return AcceptedTurn(replayed=outcome.replayed, turn=submitted(outcome)).model_dump(mode="json")
    problem = translate(outcome, request.url.path, request.app.state)
    after = (problem.headers or {}).get("Retry-After")
    seconds = None if after is None else int(after)
    refused = RefusedTurn(status=problem.kind.status, problem=describe(problem), retry_after_seconds=seconds)
    return refused.model_dump(mode="json", exclude_none=True)
