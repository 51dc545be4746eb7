"""A stand-in of the agent that ECS runs next to each task, as far as Turnstile asks it."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TASK_ID = "0123456789abcdef0123456789abcdef"
TASK_ARN = f"arn:aws:ecs:eu-central-1:123456789012:task/turnstile/{TASK_ID}"

PROTECTED: dict[str, Any] = {"protection": {"ProtectionEnabled": True, "TaskArn": TASK_ARN}}
NO_SERVICE: dict[str, Any] = {"failure": {"Arn": TASK_ARN, "Reason": "TASK_NOT_VALID", "Detail": None}}
NOT_ALLOWED: dict[str, Any] = {"requestID": "1", "error": {"Code": "AccessDeniedException", "Message": "not you"}}


@dataclass(slots=True)
class Agent:
    """What it was asked, and what it answers."""

    uri: str = ""
    wishes: list[dict[str, Any]] = field(default_factory=list)
    heard_at: float = 0.0
    """When the last wish came, monotonic seconds."""
    status: int = 200
    answer: object = field(default_factory=lambda: PROTECTED)
    metadata: object = field(default_factory=lambda: {"Cluster": "turnstile", "TaskARN": TASK_ARN})

    @property
    def enabled(self) -> list[bool]:
        """Whether each wish was for protection."""
        return [wish["ProtectionEnabled"] for wish in self.wishes]


@contextmanager
def ecs_agent() -> Iterator[Agent]:
    agent = Agent()

    class Answering(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            assert self.path == "/api/x/task-protection/v1/state"
            agent.wishes.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            agent.heard_at = time.monotonic()
            self._answer(agent.status, agent.answer)

        def do_GET(self) -> None:
            assert self.path == "/api/x/task"
            self._answer(200, agent.metadata)

        def _answer(self, status: int, body: object) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
        thread.start()
        agent.uri = f"http://127.0.0.1:{server.server_address[1]}/api/x"
        yield agent
        server.shutdown()
        thread.join()
