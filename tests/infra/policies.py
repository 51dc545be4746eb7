"""IAM policies as the checks read them: ours name actions and resources whole, but for one trailing `*` of a resource."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One action on one resource."""

    action: str
    resource: str

    def covers(self, action: str, resource: str) -> bool:
        """Whether it allows the call."""
        return self.action == action and fnmatchcase(resource, self.resource)


def grants_of(policy: Mapping[str, Any]) -> Iterator[Grant]:
    """What a policy allows, one by one. ValueError for what would make the list say less than the policy does.

    What it refuses is not taken off the list: that can only make less of it.
    """
    for statement in policy["Statement"]:
        if "NotAction" in statement or "NotResource" in statement:
            raise ValueError(f"cannot be listed: {statement}")
        if statement["Effect"] == "Deny":
            continue
        for action in statement["Action"]:
            if "*" in action:
                raise ValueError(f"allows more than it names: {action}")
            for resource in statement["Resource"]:
                yield Grant(action, resource)
