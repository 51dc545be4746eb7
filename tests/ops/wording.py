"""What a command says, without what differs from run to run: tests compare it as a whole."""

import re

VARYING = {r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ": "TIME", r"(?<=\()(in \S+|\S+ ago)(?=\))": "AGE"}


def wording(text: str, **names: object) -> str:
    """The text with the name of each of the given values in its place, and with TIME and AGE. Columns stay straight."""
    for value, name in ({re.escape(str(value)): name for name, value in names.items()} | VARYING).items():
        text = re.sub(f"{value}(?=  )", lambda cell, name=name: name.ljust(len(cell[0])), text)
        text = re.sub(value, name, text)
    return text
