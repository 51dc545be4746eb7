"""Whether an id looks as if it names a person. Ids travel in messages, keys of Redis and logs, and outlive what was said. Pure.

A rule of thumb: it finds what services that chat by phone or e-mail put into an id, and no name.
"""

import re

# An id has no `@` and no `+`. With one digit less, half of all row numbers would look like it; with one more, none is a number.
_PHONE = re.compile(r"(?:(?:tel|phone|mobile|sms|wa|whatsapp)[._:-]?)?[0-9](?:[._:-]{0,2}[0-9]){8,14}", re.IGNORECASE)
_EMAIL = re.compile(r"[a-z0-9._-]+[._-]at[._-](?:[a-z0-9-]+\.)+[a-z]{2,}", re.IGNORECASE)

PERSONAL_RULE = (
    "must not look like an e-mail address or a phone number, because ids travel in messages and logs; choose a random id, or put"
    " another word before the number"
)
"""The rule of `is_personal` in words, for error messages."""


def is_personal(text: str) -> bool:
    """Whether an id is of 9 to 15 digits, with or without marks between them, or an address whose @ is written as a word."""
    return _PHONE.fullmatch(text) is not None or _EMAIL.fullmatch(text) is not None
