"""Finds environment variables that have the prefix of settings but are not settings.

They are not an error. After a rollback the environment still has the variables of the newer release, and the older release must
start. Kubernetes also adds some (TURNSTILE_SERVICE_HOST) if a service is called turnstile.
"""

import os
from collections.abc import Collection
from difflib import get_close_matches

from turnstile.config.settings import PREFIX, Settings

_OF_TOOLS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        # HOME is the folder of the embedded stack.
        *("DEBUG", "HOME"),
        # VERSION is for deployments, the others for tests and checks of this repository.
        *("VERSION", "MODEL_EXAMPLES", "TERRAFORM_MIRROR", "TEST_CALLS", "TEST_QUEUES", "TEST_ROLE"),
    )
)


def describe_unknown_variables(more: Collection[str] = ()) -> str | None:
    """One line about the unknown variables of this process; None if there are none. `more`: further known names."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _OF_TOOLS | set(more)
    unknown = sorted(name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in known)
    return (
        f"not settings, so without effect: {', '.join(_with_guess(name, known) for name in unknown)}"
        if unknown
        else None
    )


def _with_guess(name: str, known: Collection[str]) -> str:
    # Without the prefix, which would make all of them alike.
    words = {one.removeprefix(PREFIX): one for one in known}
    close = get_close_matches(name.upper().removeprefix(PREFIX), words, n=1, cutoff=0.85)
    return f"{name} (for {words[close[0]]}?)" if close else name
