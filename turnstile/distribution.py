"""The name that pip knows Turnstile by.

It differs from the name that is imported: on the package index, `turnstile` is somebody else's program.
"""

NAME = "turnstile-sqs"


def install(extra: str) -> str:
    """The command that adds an extra to the installed Turnstile."""
    return f"pip install '{NAME}[{extra}]'"
