"""What a session remembers in a scene: each method is one call of a handler, with what the audit has of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.memory_evidence import MemoryAct, MemoryChange, MemoryItem
from tests.proof.tests.checker.scene import TENANT, Scene

FACT, ITEM = "fact", "item"
CITY = "city"


@dataclass(slots=True)
class Notebook(Scene):
    """A correct memory. `turn_id` is whose handler calls."""

    kept: dict[str, MemoryChange] = field(default_factory=dict)
    """The durable items by key."""
    _version: int = 0

    def keep(
        self,
        turn_id: str = "a",
        key: str = CITY,
        kind: str = FACT,
        *,
        expected: int | None = None,
        tags: Sequence[str] = (),
        outcome: str = "ok",
    ) -> Self:
        """Writes an item, as the next version: 1, 2, 3. `outcome` is what the handler was answered."""
        self._version += 1
        value = {"by": turn_id, "fence": self.turns[turn_id].row.fence, "n": self._version}
        at = self._tick()
        if kind == FACT:
            self._write(turn_id, key, value=value, tags=tags)
        version = self._version if outcome == "ok" else None
        more = {"outcome": outcome, "version": version, "expected": expected, "value": value}
        return self.say("set", turn_id, at, kind=kind, key=key, **more)

    def forget(self, turn_id: str = "a", key: str = CITY, kind: str = FACT) -> Self:
        """Deletes an item that is there."""
        self._version += 1
        at = self._tick()
        if kind == FACT:
            self._write(turn_id, key, gone=True)
        return self.say("delete", turn_id, at, kind=kind, key=key)

    def look(self, version: int | None, *, kind: str = FACT, **answer: Any) -> Self:
        """Turn a reads the city, and is shown this version of it."""
        written = [act for act in self.evidence.memory_acts if act.version == version and act.op == "set"]
        answer.setdefault("value", written[0].value if written else None)
        return self.say("get", kind=kind, key=CITY, version=version, **answer)

    def say(self, op: str, turn_id: str = "a", at: float | None = None, **answer: Any) -> Self:
        """Any call, which began at this time (now), and its answer."""
        row = self.turns[turn_id].row
        act = MemoryAct(
            at=at or self._tick(), until=self._tick(), turn_id=turn_id, tenant=TENANT, session=row.session,
            fence=row.fence, op=op, **{"outcome": "ok", **answer},
        )  # fmt: skip
        self.evidence.memory_acts.append(act)
        return self

    def under_fence(self, fence: int, kind: str = "memory_acts") -> Self:
        """The last record was made under another claim."""
        records = getattr(self.evidence, kind)
        records[-1] = replace(records[-1], fence=fence)
        return self

    def rest(self, **terms: Any) -> Evidence:
        """The end of the run, with what the table has."""
        self.evidence.memory_items = [
            MemoryItem(
                tenant=TENANT, session=one.session, kind=one.kind, key=one.key, version=one.version, gone=one.gone,
                value=one.value,
            )
            for one in self.kept.values()
        ]  # fmt: skip
        return Scene.rest(self, **terms)

    def _write(self, turn_id: str, key: str, **fields: Any) -> None:
        row = self.turns[turn_id].row
        change = MemoryChange(
            n=self._next_number(), at=self._tick(), tenant=TENANT, session=row.session, kind=FACT, key=key,
            version=self._version, fence=row.fence, **{"gone": False, **fields},
        )  # fmt: skip
        self.evidence.memory_changes.append(change)
        self.kept[key] = change
