"""Whatever a user says comes back as it was said, or is refused: no text is changed, and none breaks the API."""

import json
from typing import Any

from httpx import AsyncClient
from hypothesis import strategies as st

from tests.producer.api.calls import end, succeed
from tests.support.drawn_examples import draw
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

EXAMPLES = 60

characters = st.characters() | st.sampled_from("\x00\ud800\udfff\u202e\x1b\u2028\ufeff\\\"'%{}")
# Blank texts are refused for another reason.
texts = st.text(characters).map(lambda text: "x" + text)
objects = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    min_size=1,
    max_size=3,
)


def can_be_stored(said: Any) -> bool:
    """Postgres has no U+0000 in a text, and UTF-8 no half of a surrogate pair."""
    match said:
        case str():
            return not any(one == "\x00" or "\ud800" <= one <= "\udfff" for one in said)
        case list():
            return all(map(can_be_stored, said))
        case dict():
            return all(can_be_stored(key) and can_be_stored(value) for key, value in said.items())
        case _:
            return True


async def test_an_accepted_input_and_its_reply_are_read_as_they_were_said(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    for number, drawn in enumerate(draw(texts | objects, EXAMPLES)):
        # Two halves of a pair that follow each other are one character in JSON.
        said = json.loads(json.dumps(drawn))
        session = f"s-{number}"
        answer = await client.post(
            f"/v1/sessions/{session}/turns",
            content=json.dumps({"input": said}),
            headers={"Content-Type": "application/json"},
        )

        assert (answer.status_code == 202) == can_be_stored(said), (said, answer.text)
        if answer.status_code == 202:
            await end(database, settings, session, succeed(said))
            messages = (await client.get(f"/v1/sessions/{session}/messages")).json()["messages"]
            assert [message["content"] for message in messages] == [said, said]
        else:
            assert answer.status_code in {400, 422}
            assert answer.headers["content-type"] == "application/problem+json"
