"""What happens to a submit whichever way it has come: to its body on the way in, and to the headers of its answer."""

from datetime import UTC, datetime

from starlette.requests import Request

from turnstile.producer.http.problems import Fault, invalid_parameters
from turnstile.producer.http.request_body import read_json
from turnstile.producer.submit.intake import Intake
from turnstile.producer.submit.turn_request import read_turn_request
from turnstile.statements.submit import Accepted
from turnstile.turn.message import RESERVED_RULE, is_reserved_session


async def take_in(
    intake: Intake, tenant: str, session_id: str, request: Request, *, key: str | None, traceparent: str | None
) -> Accepted:
    """Reads the body, and records and queues what it asks for. Raises what `producer/http/problems.py` translates."""
    if is_reserved_session(session_id):
        raise invalid_parameters(Fault(detail=RESERVED_RULE, parameter="session_id"))
    body = await read_json(request, intake.max_body_bytes)
    wanted = read_turn_request(body, datetime.now(UTC))
    return await intake.accept(tenant, session_id, wanted, key=key, traceparent=traceparent)


def submitted_headers(accepted: Accepted) -> dict[str, str]:
    """The headers of a 202."""
    return {
        "Location": f"/v1/turns/{accepted.turn_id}",
        "Retry-After": "1",
        "traceparent": accepted.trace.traceparent,
        **({"Idempotency-Replayed": "true"} if accepted.replayed else {}),
    }
