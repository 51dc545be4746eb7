"""The name that pip knows Turnstile by.

It is not the name that is imported: on the package index, `turnstile` is a program of somebody else.
"""

NAME = "turnstile-sqs"


def install(extra: str) -> str:
    """The command that adds an extra to the installed Turnstile."""
    return f"pip install '{NAME}[{extra}]'"
