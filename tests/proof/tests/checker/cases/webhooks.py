"""Completion webhooks: I20."""

from dataclasses import replace

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.webhook_evidence import OwedWebhook, Posted
from tests.proof.tests.checker.conviction import Convicts, amended, answered, play
from tests.proof.tests.checker.scene import Scene

EVENT = {"id": "a", "generation": 1, "status": "SUCCEEDED", "attempt": 1}
LATER = 1000.0
OWED = OwedWebhook(turn_id="a", generation=1, event=EVENT, due_at=None, tries=2, delivered_at=LATER)
GIVEN_UP = replace(OWED, delivered_at=None, error="status 500")
TAKEN = Posted(
    at=LATER, event_id="turn_a_1", verified=True, digest="d", body={"type": "turn.succeeded", "data": EVENT},
    answer="204",
)  # fmt: skip
REFUSED = replace(TAKEN, answer="500")


def notified(owed: list[OwedWebhook], posts: list[Posted], scene: Scene | None = None) -> Evidence:
    """A turn that asked for a webhook (it was answered, unless `scene` says otherwise), and what came of that."""
    scene = scene or answered()
    scene.turns["a"].row = replace(scene.turns["a"].row, webhook=True)
    evidence = scene.rest()
    evidence.webhooks, evidence.posts = owed, posts
    return evidence


def convicts(words: str, owed: list[OwedWebhook], posts: list[Posted], scene: Scene | None = None) -> Convicts:
    return Convicts("I20", words, notified(owed, posts, scene))


CONVICTED = (
    Convicts("I20", "from anna with a webhook, and has none", amended(answered(), "history", webhook=True)),
    convicts("became SUCCEEDED in generation 1, and no webhook is owed", [], []),
    convicts("says ('a', 1, 'FAILED', 1)", [replace(OWED, event={**EVENT, "status": "FAILED"})], [TAKEN]),
    convicts("generation 1, which has not ended", [OWED], [TAKEN], play("submit, claim")),
    convicts("is called delivered, and its receiver took none", [OWED], [REFUSED]),
    convicts("is still due at rest", [replace(OWED, delivered_at=None, due_at=LATER)], [REFUSED]),
    convicts("was given up after 2 tries (status 500)", [GIVEN_UP], [REFUSED]),
    convicts("was posted 3 times, of 2 tries", [OWED], [TAKEN] * 3),
    convicts("a signature that does not fit", [OWED], [TAKEN, replace(TAKEN, verified=False)]),
    convicts("did not say the same", [OWED], [TAKEN, replace(TAKEN, digest="e")]),
    convicts("and what happened is", [OWED], [replace(TAKEN, body={"data": {**EVENT, "attempt": 2}})]),
    convicts("s before the turn ended", [OWED], [replace(TAKEN, at=1.0)]),
    convicts("as turn_a_9, which is not owed", [OWED], [TAKEN, replace(TAKEN, event_id="turn_a_9")]),
)
