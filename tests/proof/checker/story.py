"""The story of a turn: all that the evidence says about it, in the order of time. The proof beneath a conviction."""

from collections.abc import Iterable, Iterator, Set

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.ledger import grouped
from tests.proof.checker.logs import logged_at
from tests.proof.checker.messages import read_turn_id
from tests.proof.checker.tables import Change
from tests.proof.checker.vocabulary import GENERATION_ATTRIBUTE, REASON_ATTRIBUTE

MAX_CHARACTERS = 240


def stories_of(evidence: Evidence, turn_ids: Iterable[str | None]) -> dict[str | None, str]:
    """The stories of some turns (None is left out): a line for each thing that happened, in seconds since the first change."""
    wanted = dict.fromkeys(turn_id for turn_id in turn_ids if turn_id is not None).keys()
    timed = grouped(_happenings(evidence, wanted), lambda happening: happening[0])
    at_rest = grouped(_remains(evidence, wanted), lambda remains: remains[0])
    epoch = evidence.audit[0].at if evidence.audit else evidence.terms.healed_at
    stories: dict[str | None, str] = {}
    for turn_id in wanted:
        happenings = [happening[1:] for happening in timed[turn_id]]
        if happenings:
            first, last = min(happenings)[0], max(happenings)[0]
            happenings += [
                (fault.at, "fault", f"{fault.kind} of {fault.target} for {fault.until - fault.at:.3f} s")
                for fault in evidence.faults
                if fault.at <= last and fault.until >= first
            ]
        # Stable: what has the same time stays in the order of the evidence.
        happenings.sort(key=lambda happening: happening[0])
        lines = [f"{when - epoch:+10.3f}  {who:<8} {what[:MAX_CHARACTERS]}" for when, who, what in happenings]
        lines += [f"{'at rest':>10}  {what[:MAX_CHARACTERS]}" for _, what in at_rest[turn_id]]
        stories[turn_id] = "\n  ".join([f"turn {turn_id}", *lines])
    return stories


def _happenings(evidence: Evidence, wanted: Set[str]) -> Iterator[tuple[str, float, str, str]]:
    for call in evidence.history:
        if call.turn_id is not None and call.turn_id in wanted:
            content = f" {call.content!r}" if call.op == "submit" else ""
            shown = {name: getattr(call, name) for name in ("status", "generation", "key", "wait")}
            said = "".join(f" {name}={value}" for name, value in shown.items() if value is not None)
            answer = f"{call.outcome} {call.http or 'no answer'} after {call.until - call.at:.3f} s"
            yield call.turn_id, call.at, "client", f"{call.client} {call.op}{content}: {answer}{said}"
    for change in evidence.audit:
        if change.turn_id in wanted:
            yield change.turn_id, change.at, "audit", _describe(change)
    for join in evidence.joins:
        if join.turn_id in wanted:
            waits = "goes on" if join.after is None else f"waits for {join.policy} of {', '.join(join.after)}"
            yield join.turn_id, join.at, "audit", f"n={join.n} {waits}"
    for run in evidence.runs:
        if run.turn_id in wanted:
            heard = "" if run.heard is None else f", heard {list(run.heard)}"
            done = "" if run.key is None else f" {run.key} ({run.value!r})"
            says = f"{run.what}{done} under fence {run.fence} as attempt {run.attempt} in {run.pid}{heard}"
            yield run.turn_id, run.at, "handler", says
    for wire in evidence.wire:
        if wire.turn_id is not None and wire.turn_id in wanted:
            did = "done" if wire.effective else "not done"
            where = f"{wire.queue} {wire.message_id or '-'}"
            says = f"{wire.action} {where}: {did}, {'answered' if wire.answered else 'not answered'}"
            yield wire.turn_id, wire.at, "wire", f"{says}{f' ({wire.reason})' if wire.reason else ''}"
    for post in evidence.posts:
        if post.turn_id in wanted:
            signed = "" if post.verified else ", its signature does not fit"
            yield post.turn_id, post.at, "webhook", f"{post.event_id} posted, answered {post.answer}{signed}"
    for attempt in evidence.attempts:
        if attempt.turn_id in wanted:
            says = f"{attempt.attempt} of generation {attempt.generation}, fence {attempt.fence}: {attempt.outcome}"
            says += f" {attempt.error_class or ''} ({attempt.worker})"
            yield attempt.turn_id, attempt.finished_at, "attempt", says
    for line in evidence.logs:
        if line.turn_id is not None and line.turn_id in wanted:
            yield line.turn_id, logged_at(line) or 0.0, "log", f"{line.role} {line.pid} {line.event} {line.text}"


def _describe(change: Change) -> str:
    says = f"n={change.n} {change.before or '-'} -> {change.after} seq={change.seq} generation={change.generation}"
    says += f" fence {change.fence_before} -> {change.fence}"
    says += f" attempt={change.attempt} failures={change.failures} crashes={change.crashes}"
    if change.lease_before is not None:
        says += f" lease stood for {change.lease_before - change.at:+.3f} s"
    if change.cancel_requested:
        says += " cancel requested"
    return f"{says} {change.error_class or ''} {f'by {change.worker}' if change.worker else ''}".rstrip()


def _remains(evidence: Evidence, wanted: Set[str]) -> Iterator[tuple[str, str]]:
    for row in evidence.turns:
        if row.turn_id in wanted:
            says = f"row {row.status} seq={row.seq} generation={row.generation} fence={row.fence} attempt={row.attempt}"
            says += f" failures={row.failures} crashes={row.crashes} of {row.max_attempts} error={row.error_class}"
            says += f" owed={row.send_at is not None} dead_lettered={row.dead_lettered_at is not None}"
            says += f" tenant={row.tenant} session={row.session}{f' {row.kind} of {row.parent}' if row.parent else ''}"
            yield row.turn_id, says
    for webhook in evidence.webhooks:
        if webhook.turn_id in wanted:
            outcome = "delivered" if webhook.delivered_at else "given up" if webhook.due_at is None else "due"
            yield webhook.turn_id, f"{webhook.event_id} {outcome} after {webhook.tries} tries ({webhook.error})"
    for entry in evidence.messages:
        if entry.turn_id in wanted:
            yield entry.turn_id, f"history {entry.ordinal} {entry.role} {entry.kind}: {entry.content!r}"
    for value in evidence.values:
        if value.turn_id in wanted:
            yield value.turn_id, f"value {value.key} = {value.value!r}, recorded under fence {value.fence}"
    for message in evidence.queued:
        turn_id = read_turn_id(message.body)
        if turn_id is not None and turn_id in wanted:
            reason, generation = (message.attributes.get(name) for name in (REASON_ATTRIBUTE, GENERATION_ATTRIBUTE))
            what = "dead letter" if message.dead else "message"
            yield turn_id, f"{what} {message.message_id} on {message.queue}: {reason}, generation {generation}"
