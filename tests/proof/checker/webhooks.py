"""Webhooks (I20): each end of a turn that asked for it is told, signed and as it was; at least once, and not for ever.

At least once means that a POST may come again, and that one which the table calls delivered was taken by its receiver. What
is told is the end of one generation: the turn may have been redriven before the receiver gets it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.proof.checker.ledger import Ledger
from tests.proof.checker.tables import Change
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import TERMINAL
from tests.proof.checker.webhook_evidence import OwedWebhook, Posted

MAX_TRIES = 16
"""After so many it may be given up."""
TAKEN, GONE = "204", "410"
"""Answers of the receiver: it has it; it never wants it again."""

End = tuple[str, int]
"""A turn and the generation that ended."""


def webhooks(ledger: Ledger) -> Iterator[Violation]:
    asked = {turn_id for turn_id, row in ledger.rows.items() if row.webhook}
    ends: dict[End, Change] = {
        (turn_id, change.generation): change
        for turn_id in asked
        for change in ledger.changes.get(turn_id, ())
        if change.after in TERMINAL and change.before != change.after
    }
    owed = {(one.turn_id, one.generation): one for one in ledger.evidence.webhooks}
    posts: defaultdict[str, list[Posted]] = defaultdict(list)
    for post in ledger.evidence.posts:
        posts[post.event_id].append(post)
    for turn_id, says in (*_accepted(ledger, asked), *_owed(ends, owed), *_posted(ends, owed, posts)):
        yield Violation("I20", says, turn_id, ledger.session_of(turn_id))


def _accepted(ledger: Ledger, asked: set[str]) -> Iterator[tuple[str, str]]:
    for call in ledger.submits:
        taken = call.outcome == "ok" and call.turn_id in ledger.rows
        if call.webhook and taken and call.turn_id is not None and call.turn_id not in asked:
            yield call.turn_id, f"was accepted from {call.client} with a webhook, and has none"


def _owed(ends: dict[End, Change], owed: dict[End, OwedWebhook]) -> Iterator[tuple[str, str]]:
    for (turn_id, generation), end in ends.items():
        if (turn_id, generation) not in owed:
            yield turn_id, f"became {end.after} in generation {generation}, and no webhook is owed"
    for (turn_id, generation), webhook in owed.items():
        if (turn_id, generation) not in ends:
            yield turn_id, f"has a webhook for generation {generation}, which has not ended or did not ask for it"
            continue
        end = ends[turn_id, generation]
        told = tuple(webhook.event.get(name) for name in ("id", "generation", "status", "attempt"))
        if told != (turn_id, generation, end.after, end.attempt):
            yield turn_id, f"is told of as {told}, and became {end.after} in generation {generation}"


def _posted(
    ends: dict[End, Change], owed: dict[End, OwedWebhook], posts: dict[str, list[Posted]]
) -> Iterator[tuple[str, str]]:
    by_id = {webhook.event_id: webhook for webhook in owed.values()}
    for event_id in posts.keys() - by_id.keys():
        yield posts[event_id][0].turn_id, f"was told of as {event_id}, which is not owed"
    for end, webhook in owed.items():
        got = posts.get(webhook.event_id, [])
        for says in (*_came_to(webhook, got), *_said(webhook, ends.get(end), got)):
            yield webhook.turn_id, f"generation {webhook.generation}: its webhook {says}"


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
