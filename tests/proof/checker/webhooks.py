"""Webhooks (I20): each end of a turn that asked for it is posted, signed and as it was; at least once, and not for ever.

At least once means that a POST may come again, and that one which the table calls delivered was taken by its receiver. What
is posted is the end of one generation: the turn may have been redriven before the receiver gets it.
"""

from collections.abc import Iterator, Sequence

from tests.proof.checker.ledger import Ledger, grouped
from tests.proof.checker.rule import Findings, rule
from tests.proof.checker.tables import Change
from tests.proof.checker.vocabulary import TERMINAL
from tests.proof.checker.webhook_evidence import OwedWebhook, Posted

MAX_TRIES = 16
"""After so many it may be given up."""
TAKEN, GONE = "204", "410"
"""Answers of the receiver: it has it; it never wants it again."""

End = tuple[str, int]
"""A turn and the generation that ended."""


def _ends(ledger: Ledger) -> dict[End, Change]:
    """The ends of which a client asked to be notified."""
    return {
        (change.turn_id, change.generation): change
        for change in ledger.evidence.audit
        if change.after in TERMINAL
        and change.before != change.after
        and change.turn_id in ledger.rows
        and ledger.rows[change.turn_id].webhook
    }


@rule("I20")
def submits_name_webhooks(ledger: Ledger) -> Findings:
    for call in ledger.submits:
        row = ledger.rows.get(call.turn_id or "")
        if call.webhook and call.outcome == "ok" and row is not None and not row.webhook:
            yield call.turn_id, f"was accepted from {call.client} with a webhook, and has none"


@rule("I20")
def ends_owe_webhooks(ledger: Ledger) -> Findings:
    ends = _ends(ledger)
    owed = {(one.turn_id, one.generation): one for one in ledger.evidence.webhooks}
    for (turn_id, generation), end in ends.items():
        if (turn_id, generation) not in owed:
            yield turn_id, f"became {end.after} in generation {generation}, and no webhook is owed"
    for (turn_id, generation), webhook in owed.items():
        if (turn_id, generation) not in ends:
            yield turn_id, f"has a webhook for generation {generation}, which has not ended or did not ask for it"
            continue
        end = ends[turn_id, generation]
        event = tuple(webhook.event.get(name) for name in ("id", "generation", "status", "attempt"))
        if event != (turn_id, generation, end.after, end.attempt):
            yield turn_id, f"has a webhook that says {event}, and became {end.after} in generation {generation}"


@rule("I20")
def owed_webhooks_are_posted(ledger: Ledger) -> Findings:
    ends, owed = _ends(ledger), ledger.evidence.webhooks
    posts = grouped(ledger.evidence.posts, lambda post: post.event_id)
    due = {webhook.event_id for webhook in owed}
    for event_id, got in posts.items():
        if event_id not in due:
            yield got[0].turn_id, f"was posted as {event_id}, which is not owed"
    for webhook in owed:
        got, end = posts[webhook.event_id], ends.get((webhook.turn_id, webhook.generation))
        for claim in (*_came_to(webhook, got), *_said(webhook, end, got)):
            yield webhook.turn_id, f"generation {webhook.generation}: its webhook {claim}"


def _came_to(webhook: OwedWebhook, got: Sequence[Posted]) -> Iterator[str]:
    answers = [post.answer for post in got]
    if webhook.delivered_at is not None:
        if not any(post.verified and post.answer == TAKEN for post in got):
            yield f"is called delivered, and its receiver took none (its answers: {answers})"
    elif webhook.due_at is not None:
        yield f"is still due at rest, after {webhook.tries} tries"
    elif webhook.tries < MAX_TRIES and GONE not in answers:
        yield f"was given up after {webhook.tries} tries ({webhook.error})"
    if len(got) > webhook.tries:
        yield f"was posted {len(got)} times, of {webhook.tries} tries that were counted"


def _said(webhook: OwedWebhook, end: Change | None, got: Sequence[Posted]) -> Iterator[str]:
    if any(not post.verified for post in got):
        yield "had a signature that does not fit"
    if len({post.digest for post in got}) > 1:
        yield "did not say the same at each try"
    for post in got:
        data = post.body.get("data") if isinstance(post.body, dict) else None
        if data != webhook.event:
            yield f"said {data!r}, and what happened is {dict(webhook.event)!r}"
        if end is not None and post.at < end.at:
            yield f"was posted {end.at - post.at:.3f} s before the turn ended"
