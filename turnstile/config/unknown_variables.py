"""Finds environment variables with the prefix of settings that are no settings, and suggests the setting probably meant.

They are not an error. After a rollback the environment still has the variables of the newer release, and the older release must
start. Kubernetes also adds some (TURNSTILE_SERVICE_HOST) if a service is called turnstile.
"""

import os
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from turnstile.config.settings import PREFIX, Settings

TOLD = 5
"""Most unknown variables that the message names."""

_SIMILAR = 0.75

_OF_TOOLS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("DEBUG", "DEMO_OUTAGE_FILE"),
        # VERSION is for deployments, the others for tests and checks of this repository.
        *("VERSION", "MODEL_EXAMPLES", "TERRAFORM_MIRROR", "TEST_CALLS", "TEST_QUEUES", "TEST_ROLE"),
    )
)


def describe_unknown_variables(more: Collection[str] = ()) -> str | None:
    """One line about the unknown variables of this process; None if there are none. `more`: further known names."""
    return describe(os.environ, {*setting_variables(), *_OF_TOOLS, *more})


def setting_variables() -> frozenset[str]:
    """The environment variables of all settings."""
    return frozenset(f"{PREFIX}{name.upper()}" for name in Settings.model_fields)


def describe(names: Iterable[str], known: Collection[str]) -> str | None:
    """One line about the names that have the prefix and are not in `known`; None if there are none. Pure."""
    unknown = sorted(name for name in names if name.upper().startswith(PREFIX) and name.upper() not in known)
    if not unknown:
        return None
    told = [f"{name}{_guess(name, known)}" for name in unknown[:TOLD]]
    if len(unknown) > TOLD:
        told.append(f"{len(unknown) - TOLD} more")
    effect = "is no setting and has no effect" if len(unknown) == 1 else "are no settings and have no effect"
    return f"{', '.join(told)} {effect}"


def _guess(name: str, known: Collection[str]) -> str:
    # Compared without the prefix, which makes all names similar.
    endings = [one.removeprefix(PREFIX) for one in known]
    close = get_close_matches(name.upper().removeprefix(PREFIX), endings, n=1, cutoff=_SIMILAR)
    return f" (did you mean {PREFIX}{close[0]}?)" if close else ""
