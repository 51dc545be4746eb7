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
class Notebook:
    """A correct memory. `turn_id` is whose handler calls."""

    scene: Scene
    kept: dict[tuple[str, str], MemoryChange] = field(default_factory=dict)
    _version: int = 0

    def keep(
        self,
        turn_id: str = "a",
        key: str = CITY,
        *,
        kind: str = FACT,
        expected: int | None = None,
        tags: Sequence[str] = (),
        outcome: str = "ok",
    ) -> Self:
        """Writes an item, as the next version: 1, 2, 3. `outcome` is what the handler was told."""
        self._version += 1
        value = {"by": turn_id, "fence": self._fence(turn_id), "n": self._version}
        at = self.scene.wait(0.01).at
        if kind == FACT:
            self._change(turn_id, key, value=value, tags=tags)
        told = {"version": self._version if outcome == "ok" else None, "expected": expected, "value": value}
        return self._act(turn_id, "set", at, kind=kind, key=key, outcome=outcome, **told)

    def forget(self, turn_id: str = "a", key: str = CITY, *, kind: str = FACT) -> Self:
        """Deletes an item that is there."""
        self._version += 1
        at = self.scene.wait(0.01).at
        if kind == FACT:
            self._change(turn_id, key, gone=True)
        return self._act(turn_id, "delete", at, kind=kind, key=key)

    def look(self, turn_id: str = "a", key: str = CITY, *, version: int | None, **told: Any) -> Self:
        """Reads an item, and is shown this version of it."""
        written = [act for act in self.scene.evidence.memory_acts if act.version == version and act.op == "set"]
        told.setdefault("value", written[0].value if written else None)
        return self._act(
            turn_id, "get", self.scene.wait(0.01).at, **{"kind": FACT, "key": key, "version": version, **told}
        )

    def say(self, op: str, turn_id: str = "a", **told: Any) -> Self:
        """Any other call, and its answer."""
        return self._act(turn_id, op, self.scene.wait(0.01).at, **told)

    def under_fence(self, fence: int, kind: str = "memory_acts") -> Self:
        """The last record was made under an earlier claim."""
        records = getattr(self.scene.evidence, kind)
        records[-1] = replace(records[-1], fence=fence)
        return self

    def take_over(self) -> Self:
        """Another worker takes turn a over."""
        self.scene.take_over()
        return self

    def go_on(self, before: str = "b", turn_id: str = "a") -> Self:
        """A turn is answered, and the next one begins."""
        self.scene.settle(before).claim(turn_id)
        return self

    def settle(self) -> Self:
        """Turn a is answered."""
        self.scene.settle()
        return self

    def rest(self) -> Evidence:
        """The end of the run, with what the table holds."""
        for change in self.kept.values():
            self.scene.evidence.memory_items.append(
                MemoryItem(
                    tenant=TENANT,
                    session=change.session,
                    kind=change.kind,
                    key=change.key,
                    version=change.version,
                    gone=change.gone,
                    value=change.value,
                )
            )
        return self.scene.rest()

    def _change(self, turn_id: str, key: str, **fields: Any) -> None:
        change = MemoryChange(
            n=self.scene._next_number(), at=self.scene.wait(0.01).at, tenant=TENANT,
            session=self.scene.turns[turn_id].row.session, kind=FACT, key=key, version=self._version,
            fence=self._fence(turn_id), **{"gone": False, **fields},
        )  # fmt: skip
        self.scene.evidence.memory_changes.append(change)
        self.kept[FACT, key] = change

    def _act(self, turn_id: str, op: str, at: float, **told: Any) -> Self:
        act = MemoryAct(
            at=at, until=self.scene.wait(0.01).at, turn_id=turn_id, tenant=TENANT,
            session=self.scene.turns[turn_id].row.session, fence=self._fence(turn_id), op=op, **{"outcome": "ok", **told},
        )  # fmt: skip
        self.scene.evidence.memory_acts.append(act)
        return self

    def _fence(self, turn_id: str) -> int:
        return self.scene.turns[turn_id].row.fence


def claimed(*turn_ids: str) -> Notebook:
    """The first of these turns runs; turn a, unless others are named."""
    scene = Scene()
    for turn_id in turn_ids or ("a",):
        scene.submit(turn_id)
    return Notebook(scene.claim(turn_ids[0] if turn_ids else "a"))


def ended(book: Notebook) -> Evidence:
    """Turn a is answered, and the run comes to its end."""
    return book.settle().rest()
