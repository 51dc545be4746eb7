"""The handler behind the pages: it says the words of its reply one by one, and each only when the test allows it."""

import os
from functools import partial
from pathlib import Path

from tests.support.probes import until
from turnstile import Context, Turn, handler

WORDS = [f"word {number} <b>&amp; 漢字</b> 🙂, " for number in range(1, 13)]
"""With what a page may garble: markup, and characters of several bytes."""


def reply_to(text: str) -> list[str]:
    """The words of the reply to a message."""
    return [f"On {text!r}: ", *WORDS, "and that is all."]


@handler(timeout=120)
async def speak(turn: Turn, ctx: Context) -> str:
    words = reply_to(str(turn.input))
    for number, word in enumerate(words):
        await until(partial(_may_say, number), within=110)
        await ctx.emit(word)
    return "".join(words)


def _may_say(number: int) -> bool:
    return number < int(Path(os.environ["ALLOWED_WORDS"]).read_text() or 0)
