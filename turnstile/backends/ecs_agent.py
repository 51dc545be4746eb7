"""What a task asks of the ECS agent beside it: who it is, and to be spared by scale-in. All such calls; they block.

The agent answers on a link-local address that ECS puts into the environment. Plain `http.client`: no proxy of the
environment may come between, no redirect is followed, and only a short time is waited.
"""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from turnstile.errors import TurnstileError

TIMEOUT_SECONDS = 2.0
MAX_ANSWER_BYTES = 65_536


class EcsAgentError(TurnstileError):
    """The agent did not answer, or refused. The message names its reason and quotes no more of the answer."""


def read_task_id(metadata_uri: str) -> str:
    """The id of the task that this process runs in. Raises EcsAgentError."""
    arn = _ask("GET", f"{metadata_uri}/task").get("TaskARN")
    if not isinstance(arn, str) or not arn:
        raise EcsAgentError("the metadata name no task")
    return arn.rpartition("/")[2]


def set_protection(agent_uri: str, *, enabled: bool, minutes: int) -> None:
    """Has the task spared by scale-in and deployments for so many minutes, or no more. Raises EcsAgentError."""
    wish: dict[str, Any] = {"ProtectionEnabled": enabled}
    if enabled:
        wish["ExpiresInMinutes"] = minutes
    answer = _ask("PUT", f"{agent_uri}/task-protection/v1/state", wish)
    if not isinstance(answer.get("protection"), dict):
        raise EcsAgentError(_reason(answer))


def _ask(method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, parts.path, sent, {"Content-Type": "application/json"} if sent else {})
        response = connection.getresponse()
        answer = json.loads(response.read(MAX_ANSWER_BYTES))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise EcsAgentError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise EcsAgentError(f"status {response.status}")
    if response.status != http.client.OK:
        raise EcsAgentError(f"status {response.status}: {_reason(answer)}")
    return answer


def _reason(answer: dict[str, Any]) -> str:
    """Why the agent refused, in its own word: `failure` is ECS's (no task of a service), `error` its API's (no permission)."""
    for name, key in (("failure", "Reason"), ("error", "Code")):
        if isinstance(found := answer.get(name), dict):
            return str(found.get(key))[:100]
    return "an answer without protection"
