"""The verdict: every rule is applied once, to one index."""

from collections.abc import Callable, Iterator

from tests.proof.checker.accounts import no_loss, one_effect, one_settlement
from tests.proof.checker.attempts import attempts_counted, poison_contained
from tests.proof.checker.clients import cancels_kept, keys_name_one_turn, reads_go_forward
from tests.proof.checker.closing import closed_by_workers
from tests.proof.checker.compensations import compensations
from tests.proof.checker.conversations import conversations
from tests.proof.checker.durable_memory import durable_memory
from tests.proof.checker.evidence import Evidence
from tests.proof.checker.families import families, joins_answered
from tests.proof.checker.fences import fences_rise
from tests.proof.checker.halting import halts_kept
from tests.proof.checker.joins import joins_kept
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.locks import locks_kept
from tests.proof.checker.logs import processes_sound, reports_true
from tests.proof.checker.message_accounting import dead_letters_accounted, deleted_after_commit
from tests.proof.checker.order import exclusion, order_in_sessions
from tests.proof.checker.progress import nobody_forgotten, progress
from tests.proof.checker.recorded import done_once
from tests.proof.checker.shares import slots_kept, tenant_share
from tests.proof.checker.streams import streams
from tests.proof.checker.transitions import transitions
from tests.proof.checker.vanishing_memory import vanishing_memory
from tests.proof.checker.violation import Violation
from tests.proof.checker.waits import waits
from tests.proof.checker.waste import waste
from tests.proof.checker.webhooks import webhooks

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
