"""The example of docs/clients.md, as it is on the page, beside tables of an application's own."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from tests.conftest import ROOT
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.ops.migration_run import apply

SECTION = (ROOT / "docs/clients.md").read_text("utf-8").partition("### Submit in your transaction\n")[2]


@pytest.fixture
def page(bare_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example as a module, under the environment of its application."""
    apply(DatabasePlace(bare_url))
    monkeypatch.setenv("TURNSTILE_QUEUES", '[{"name": "turns"}]')
    (tmp_path / "chat_of_the_page.py").write_text(re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("chat_of_the_page")


def test_the_message_and_its_turn_are_one_commit(bare_url: str, page: Any) -> None:
    engine = create_engine(bare_url.replace("postgresql://", "postgresql+psycopg://"))
    page.Base.metadata.create_all(engine)
    with Session(engine) as session:
        page.say(session, "chat-1", "given up")
        session.rollback()
        with session.begin():
            page.say(session, "chat-1", "Good morning")
        [message] = session.scalars(select(page.Message)).all()
        [(turn_id, key)] = session.connection().exec_driver_sql("SELECT turn_id, key FROM turnstile.submissions").all()
    engine.dispose()

    assert (message.turn_id, message.text) == (turn_id, "Good morning")
    assert key == f"key:message-{message.id}"
