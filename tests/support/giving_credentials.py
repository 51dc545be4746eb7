"""What botocore's chain of providers finds, and how it is refreshed, as a test says."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.credentials import CredentialResolver, Credentials, RefreshableCredentials
from botocore.exceptions import ClientError

from tests.support.scripted_sqs import ScriptedSqs

Given = dict[str, str]


def given(minutes: float = 60) -> Given:
    """What a provider says."""
    ends = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
    return {"access_key": "NEW", "secret_key": "new", "token": "new-token", "expiry_time": ends}


def found(monkeypatch: pytest.MonkeyPatch, look: Callable[[], Credentials | None]) -> None:
    """Has botocore's chain of providers find that."""
    monkeypatch.setattr(CredentialResolver, "load_credentials", lambda _: look())


def temporary(refresh: Callable[[], Given], *, minutes: float = 0.5) -> RefreshableCredentials:
    """Old ones, which are good for so long."""
    ends = datetime.now(UTC) + timedelta(minutes=minutes)
    return RefreshableCredentials("OLD", "old", "old-token", ends, refresh, "test")


def signed_by(sqs: ScriptedSqs) -> list[str]:
    """The keys of the requests that have come."""
    return [request.headers["authorization"].partition("Credential=")[2].partition("/")[0] for request in sqs.requests]


def refused_by_sts() -> Given:
    answer: Any = {"Error": {"Code": "Throttling", "Message": "Rate exceeded"}}
    raise ClientError(answer, "AssumeRoleWithWebIdentity")


class Hanging:
    """A refresh that does not come back before it may."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.may_end = threading.Event()

    def __call__(self) -> Given:
        self.threads.append(threading.current_thread().name)
        self.may_end.wait(60)
        return given()
