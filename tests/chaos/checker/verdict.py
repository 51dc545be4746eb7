"""The verdict: every rule asked once, over one index."""

from collections.abc import Callable, Iterator

from tests.chaos.checker.accounts import no_loss, one_effect, one_settlement
from tests.chaos.checker.attempts import attempts_counted, poison_contained
from tests.chaos.checker.clients import cancels_kept, keys_name_one_turn, reads_go_forward
from tests.chaos.checker.closing import closed_by_workers
from tests.chaos.checker.compensations import compensations
from tests.chaos.checker.conversations import conversations
from tests.chaos.checker.durable_memory import durable_memory
from tests.chaos.checker.evidence import Evidence
from tests.chaos.checker.families import families, joins_answered
from tests.chaos.checker.fences import fences_rise
from tests.chaos.checker.halting import halts_kept
from tests.chaos.checker.joins import joins_kept
from tests.chaos.checker.ledger import Ledger
from tests.chaos.checker.letters import dead_letters_accounted, deleted_after_commit
from tests.chaos.checker.locks import locks_kept
from tests.chaos.checker.logs import processes_sound, reports_true
from tests.chaos.checker.order import exclusion, order_in_sessions
from tests.chaos.checker.progress import nobody_forgotten, progress
from tests.chaos.checker.recorded import done_once
from tests.chaos.checker.shares import slots_kept, tenant_share
from tests.chaos.checker.streams import streams
from tests.chaos.checker.transitions import transitions
from tests.chaos.checker.vanishing_memory import vanishing_memory
from tests.chaos.checker.violation import Violation
from tests.chaos.checker.waits import waits
from tests.chaos.checker.waste import waste
from tests.chaos.checker.webhooks import webhooks

Rule = Callable[[Ledger], Iterator[Violation]]

RULES: tuple[Rule, ...] = (
    no_loss,
    one_settlement,
    reports_true,
    one_effect,
    families,
    joins_answered,
    done_once,
    compensations,
    fences_rise,
    order_in_sessions,
    halts_kept,
    exclusion,
    attempts_counted,
    poison_contained,
    dead_letters_accounted,
    deleted_after_commit,
    reads_go_forward,
    waits,
    keys_name_one_turn,
    cancels_kept,
    locks_kept,
    progress,
    nobody_forgotten,
    joins_kept,
    waste,
    streams,
    closed_by_workers,
    webhooks,
    transitions,
    durable_memory,
    vanishing_memory,
    conversations,
    tenant_share,
    slots_kept,
    processes_sound,
)


def check(evidence: Evidence) -> list[Violation]:
    """All violations, in the order of the invariants. Pure: the same evidence gives the same answer."""
    ledger = Ledger.of(evidence)
    return [violation for rule in RULES for violation in rule(ledger)]
