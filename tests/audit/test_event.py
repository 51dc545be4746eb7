"""Audit events: their kinds and their fields."""

import re

from tests.conftest import ROOT
from turnstile.audit.event import MOST_NAME_CHARACTERS, MOST_REASON_CHARACTERS, AuditEvent, AuditKind

KINDS = {
    AuditKind.KEY_CREATED,
    AuditKind.KEY_ROTATED,
    AuditKind.KEY_REVOKED,
    AuditKind.KEY_REFUSED,
    AuditKind.LIMIT_SET,
    AuditKind.LIMIT_REMOVED,
    AuditKind.TURNS_REDRIVEN,
    AuditKind.TURNS_DROPPED,
    AuditKind.TURNS_CANCELED,
    AuditKind.TURN_RETRIED,
    AuditKind.TURN_SKIPPED,
    AuditKind.TURN_WOKEN,
    AuditKind.TURNS_ARCHIVED,
    AuditKind.FINDINGS_REPAIRED,
    AuditKind.MESSAGES_DELETED,
    AuditKind.TEXT_READ,
    AuditKind.QUEUE_PAUSED,
    AuditKind.QUEUE_RESUMED,
    AuditKind.TABLES_MIGRATED,
    AuditKind.ROLES_GRANTED,
    AuditKind.SESSION_ERASED,
    AuditKind.TENANT_ERASED,
    AuditKind.WEBHOOK_SECRET_SHOWN,
    AuditKind.WEBHOOK_SECRET_ROTATED,
    AuditKind.WEBHOOK_SECRET_REVOKED,
}
"""By name: a kind that is taken away, or gets another word, breaks what people search for."""


def test_the_page_explains_each_kind_and_no_other() -> None:
    _, _, table = (ROOT / "docs/audit.md").read_text().partition("## Kinds")
    firsts = "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))

    assert {*re.findall(r"`([a-z_.]+)`", firsts)} == KINDS == {*AuditKind}


def test_a_long_text_is_cut() -> None:
    event = AuditEvent(kind=AuditKind.QUEUE_PAUSED, actor="a" * 5000, subject="s" * 5000, reason="r" * 5000)

    fields = event.as_fields()

    assert [len(fields[name]) for name in ("actor", "subject", "reason")] == [
        MOST_NAME_CHARACTERS,
        MOST_NAME_CHARACTERS,
        MOST_REASON_CHARACTERS,
    ]
