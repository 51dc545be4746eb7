"""Scenes of turns that start others, wait for them, do something once, or are compensated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.tables import JoinChange, RecordedValue
from tests.proof.tests.checker.conviction import amended
from tests.proof.tests.checker.scene import ECHO, Scene

EXPIRES_SECONDS = 600.0


@dataclass(slots=True)
class Kinship(Scene):
    """A scene with families."""

    def start(
        self, turn_id: str, parent: str = "parent", key: str | None = "#1", *, kind: str = "turn", content: Any = ECHO
    ) -> Self:
        """A turn that another has brought about, in a session of its own: of it no client knows."""
        self.submit(turn_id, session=f"child:{turn_id}", content=content)
        self.evidence.history.pop()
        turn = self.turns[turn_id]
        turn.row = replace(turn.row, parent=parent, child_key=key, kind=kind)
        return self

    def answer(self, turn_id: str, **more: Any) -> Self:
        """The turn is claimed and answered, with `more` in its reply."""
        self.claim(turn_id).run(turn_id).settle(turn_id)
        return self.reply(turn_id, **more)

    def reply(self, turn_id: str, **more: Any) -> Self:
        """What the turn has just been answered with says `more`."""
        said = self.evidence.messages.pop()
        self.evidence.messages.append(replace(said, content={**said.content, **more}))
        return self

    def fail(self, turn_id: str, error_class: str = "Boom") -> Self:
        """The turn is claimed, and fails for good."""
        self.claim(turn_id).settle(turn_id, "failed", error_class=error_class)
        return self

    def join(self, turn_id: str, children: Sequence[str], policy: str = "all") -> Self:
        """The claim ends: from now on the turn waits."""
        self.settle(turn_id, "joined")
        return self._joining(turn_id, children, policy)

    def wake(self, turn_id: str = "parent") -> Self:
        """It is due again."""
        return self._joining(turn_id, None, None)

    def note(self, turn_id: str, what: str, key: str, value: Any) -> Self:
        """What a handler did once (`did`), or was given for it (`got`)."""
        return self.run(turn_id, what, key=key, value=value)

    def record(self, turn_id: str, key: str, value: Any) -> Self:
        """The value is recorded under the turn's present fence."""
        fence = self.turns[turn_id].row.fence
        self.evidence.values.append(RecordedValue(turn_id=turn_id, key=key, value=value, fence=fence, at=self._tick()))
        return self

    def once(self, turn_id: str, key: str, value: Any) -> Self:
        """Something is done, recorded, and given."""
        return self.note(turn_id, "did", key, value).record(turn_id, key, value).note(turn_id, "got", key, value)

    def compensate(self, turn_id: str, compensation: str = "undo", **changed: Any) -> Self:
        """In the commit that made the turn FAILED, its compensation is born."""
        failed, txid = self.turns[turn_id], self.evidence.audit[-1].txid
        content = {
            "turn_id": turn_id, "session_id": failed.row.session, "generation": failed.row.generation,
            "error_class": failed.row.error_class, "inputs": [failed.content],
            "values": {one.key: one.value for one in self.evidence.values if one.turn_id == turn_id}, **changed,
        }  # fmt: skip
        self.start(compensation, turn_id, None, kind="compensation", content=content)
        amended(self.evidence, "audit", lambda change: change.turn_id == compensation, txid=txid)
        return self

    def rest_compensated(self) -> Evidence:
        """At rest, with a compensation due for each failure."""
        return self.rest(compensates=True)

    def _joining(self, turn_id: str, children: Sequence[str] | None, policy: str | None) -> Self:
        join = JoinChange(
            n=self._next_number(), at=self._tick(), turn_id=turn_id, after=children, policy=policy,
            expires_at=self.at + EXPIRES_SECONDS,
        )  # fmt: skip
        self.evidence.joins.append(join)
        return self


def joined(children: Sequence[str], outputs: Sequence[Any], policy: str = "all") -> dict[str, Any]:
    """What a parent says of its join."""
    return {"family": {"policy": policy, "children": list(children), "outputs": list(outputs)}}


def blamed(
    children: Sequence[str], lost: str, *, status: str = "FAILED", error_class: str | None = "Boom", policy: str = "all"
) -> dict[str, Any]:
    """What a parent says of a join whose policy could not be met."""
    blame = {"id": lost, "status": status, "error_class": error_class}
    return {"family": {"policy": policy, "children": list(children), "lost": blame}}


def reply_of(scene: Scene, turn_id: str) -> Any:
    replies = [one for one in scene.evidence.messages if one.turn_id == turn_id and one.role == "assistant"]
    return replies[-1].content
