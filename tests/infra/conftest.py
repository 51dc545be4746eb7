"""Fixtures only: the queues that Terraform made, and the product on them."""

import pytest

from tests.e2e.conftest import evidence, product, start_worker
from tests.support.given_queues import GivenQueues, find_given_queues

__all__ = ["evidence", "given", "product", "start_worker"]


@pytest.fixture(scope="session")
def given() -> GivenQueues:
    """What `make infra-check` applied."""
    found = find_given_queues()
    assert found, "run by `make infra-check`, which sets the stage for it"
    return found
