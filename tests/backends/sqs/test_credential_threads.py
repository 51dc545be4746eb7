"""Threads that need credentials at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.session
import pytest
from botocore.credentials import CredentialResolver
from botocore.exceptions import NoCredentialsError

from tests.support.probes import wait_until
from turnstile.backends.sqs.credentials import SoughtCredentials

THREADS = 8


class CountedLock:
    """Knows how many have come to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.come: list[None] = []

    def __enter__(self) -> None:
        self.come.append(None)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_those_who_come_while_one_looks_share_what_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []
    may_end = threading.Event()

    def look(_: CredentialResolver) -> None:
        looks.append(None)
        may_end.wait(60)

    monkeypatch.setattr(CredentialResolver, "load_credentials", look)
    sought = SoughtCredentials(botocore.session.get_session(), "us-east-1")
    lock: Any = CountedLock()
    sought._looking = lock
    with ThreadPoolExecutor(THREADS) as threads:
        asked = [threads.submit(sought.get_frozen_credentials) for _ in range(THREADS)]
        wait_until(lambda: len(lock.come) == THREADS)
        may_end.set()

    assert {type(each.exception()) for each in asked} == {NoCredentialsError}
    assert len(looks) == 1
