"""Texts that users and handlers wrote, for a terminal. Pure."""


def harmless(text: str) -> str:
    """The text with control characters replaced, because they could move the cursor or change the terminal's title."""
    return "".join(character if character in "\n\t" or character.isprintable() else "·" for character in text)
