"""Fixtures only: a clock that a test sets, and an issuer of JWTs."""

from collections.abc import AsyncIterator

import pytest

from tests.support.token_issuer import Issuer, issuing


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as made:
        yield made
