"""Settings from Secrets Manager, by a stand-in for it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from turnstile.config.config_file import load
from turnstile.errors import SettingsError
from turnstile.worker.aws_lambda.secret_settings import read_secrets

SECRETS = {"arn:database": "postgresql://app:pass-word@db/x", "arn:redis": "rediss://cache"}


@pytest.fixture(autouse=True)
def secrets_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has SECRETS and nothing else."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["SecretId"]
            status, body = (
                (200, {"SecretString": SECRETS[asked]})
                if asked in SECRETS
                else (400, {"__type": "ResourceNotFoundException", "message": f"no {asked}"})
            )
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", url)
        monkeypatch.setenv("AWS_REGION", "eu-central-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield
        server.shutdown()
        thread.join()


def test_secrets_override_the_settings_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"DATABASE_URL": "arn:database", "TURNSTILE_MEMORY_REDIS_URL": "arn:redis"}
    monkeypatch.setenv("TURNSTILE_SECRETS", json.dumps(named))
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/x")

    settings = load(**read_secrets(load()))

    assert (settings.database_url, settings.memory_redis_url) == (SECRETS["arn:database"], SECRETS["arn:redis"])


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({"DATABASE_URL": "arn:gone"}, "ResourceNotFoundException"),
        ({"DATABASE_ULR": "arn:database"}, '"DATABASE_ULR" is not a setting'),
    ],
)
def test_a_secret_that_can_not_be_read_is_refused_and_not_named(named: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match="TURNSTILE_SECRETS: ") as refused:
        read_secrets(load(secrets=named))

    assert reason in str(refused.value)
    assert "arn:" not in str(refused.value)
