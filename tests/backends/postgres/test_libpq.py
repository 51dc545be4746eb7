"""A libpq response that no server can be made to cause."""

from itertools import chain, repeat
from typing import Any

import pytest
from psycopg import OperationalError
from psycopg.pq import ConnStatus, ExecStatus

from turnstile.backends.postgres.pipeline import _exchange

ASKED_IN_VAIN = 100


class BrokenServer:
    """A libpq connection whose line broke while the commands were sent: its one answer says so, and no other ever comes."""

    status = ConnStatus.BAD
    error_message = b"the line is gone"

    def __init__(self) -> None:
        self._answers = chain([Answer()], repeat(None, ASKED_IN_VAIN))

    def enter_pipeline_mode(self) -> None: ...
    def pipeline_sync(self) -> None: ...
    def consume_input(self) -> None: ...

    def flush(self) -> int:
        return 0

    def is_busy(self) -> int:
        return 0

    def get_error_message(self) -> str:
        return "the line is gone"

    def get_result(self) -> Any:
        return next(self._answers)


class Answer:
    """The result that libpq makes up for it."""

    status = ExecStatus.FATAL_ERROR

    def error_field(self, _: int) -> None:
        return None

    def get_error_message(self, _: str = "utf-8") -> str:
        return "the line is gone"


def test_a_broken_connection_is_not_read_for_ever() -> None:
    with pytest.raises(OperationalError, match="the line is gone"):
        list(_exchange(BrokenServer(), []))  # type: ignore[arg-type]
