"""All calls to the ECS agent: the task's id, and protection from scale-in. They block.

The agent has a link-local address, which ECS puts into the environment. `http.client`, because it uses no proxy from the
environment and follows no redirect.
"""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from turnstile.errors import TurnstileError

TIMEOUT_SECONDS = 2.0
MAX_ANSWER_BYTES = 65_536


class EcsAgentError(TurnstileError):
    """The agent did not respond, or refused. The message gives the reason and nothing else from the response."""


def read_task_id(metadata_uri: str) -> str:
    """The id of this process's ECS task. Raises EcsAgentError."""
    arn = _ask("GET", f"{metadata_uri}/task").get("TaskARN")
    if not isinstance(arn, str) or not arn:
        raise EcsAgentError("the metadata name no task")
    return arn.rpartition("/")[2]


def set_protection(agent_uri: str, *, enabled: bool, minutes: int) -> None:
    """Protects the task from scale-in and deployments for `minutes`, or ends the protection. Raises EcsAgentError."""
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
    """The agent's reason for a refusal: `failure` comes from ECS (no task of a service), `error` from its API (no permission)."""
    for name, key in (("failure", "Reason"), ("error", "Code")):
        if isinstance(found := answer.get(name), dict):
            return str(found.get(key))[:100]
    return "an answer without protection"
