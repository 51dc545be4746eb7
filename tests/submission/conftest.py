"""Callers with a transaction of their own, under the role of an application: it may submit, and nothing else."""

import pytest

from tests.support.process_roles import url_of
from turnstile.config.settings import Settings
from turnstile.ops.roles.kinds import Kind
from turnstile.submission.callers_transaction import Submitter


@pytest.fixture
def application_url(settings: Settings) -> str:
    return url_of(Kind.SUBMITTER, settings.database_url)


@pytest.fixture
def submitter(settings: Settings) -> Submitter:
    return Submitter(settings)
