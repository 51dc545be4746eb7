"""Steps of the retention and of an erasure, and the audit of who did what."""

from tests.proof.saboteur.sabotage import Sabotage

RETENTION = (
    Sabotage(
        "turns-kept-for-ever",
        "config/settings.py",
        "retention_days: RetentionDays = 90.0",
        "retention_days: RetentionDays = 36_500.0",
        "config/test_retention_settings.py",
    ),
    Sabotage(
        "old-turns-stay",
        "retention/delete_turns.py",
        "now() - make_interval(secs => q.seconds) AS cutoff",
        "now() - make_interval(secs => 2 * q.seconds) AS cutoff",
        "retention/test_delete_turns.py",
    ),
    Sabotage(
        "needed-turns-go",
        "retention/delete_turns.py",
        "       AND NOT {IS_NEEDED}\n",
        "",
        "retention/test_delete_turns.py",
    ),
    Sabotage(
        "messages-outlive-their-turn",
        "archive/leaving_turns.py",
        'DELETE FROM messages m USING gone g WHERE {by_key("m.turn_id", "g.id")}',
        'DELETE FROM messages m USING gone g WHERE {by_key("m.turn_id", "g.id")} AND false',
        "retention/test_delete_turns.py",
    ),
    Sabotage(
        "archive-kept-for-ever",
        "retention/delete_archived.py",
        '"seconds": [one.table_seconds + one.archive_seconds for one in kept]',
        '"seconds": [2 * (one.table_seconds + one.archive_seconds) for one in kept]',
        "retention/test_delete_archived.py",
    ),
    Sabotage(
        "audit-kept-for-ever",
        "retention/delete_records.py",
        "statements = (FORGET_REDRIVES, FORGET_AUDIT, FORGET_ERASURES)",
        "statements = (FORGET_REDRIVES, FORGET_ERASURES)",
        "retention/test_delete_records.py",
    ),
)

ERASURE = (
    Sabotage(
        "erased-session-stays-in-redis",
        "erasure/eraser.py",
        "        await self._keys.delete([*self._keys.of_turns(*whose, ids), *self._keys.of_session(*whose)])\n",
        "",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erased-session-keeps-its-memory",
        "erasure/eraser.py",
        "                await connection.execute(ERASE_MEMORY, erasure.terms)\n",
        "",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erased-session-stays-in-the-archive",
        "erasure/rows.py",
        "AND a.session_id = %(session)s LIMIT {BATCH}",
        "AND a.session_id = %(session)s AND false LIMIT {BATCH}",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erasure-leaves-children",
        "erasure/rows.py",
        "WHERE c.session_id IN ('child:' || c.id, 'compensation:' || c.id)",
        "WHERE false",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erasure-does-not-halt",
        "erasure/request.py",
        "    await connection.execute(HALT, erasure.terms)\n",
        "",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erasure-under-a-running-worker",
        "erasure/rows.py",
        "WHEN 'RUNNING' THEN t.lease_until < now() - interval '{LAST_WORDS_SECONDS} s'",
        "WHEN 'RUNNING' THEN true",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erased-tenant-keeps-its-keys-of-submits",
        "erasure/eraser.py",
        "for statement in ERASE_BESIDE_SESSIONS:",
        "for statement in ():",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erased-tenant-keeps-its-keys",
        "erasure/request.py",
        "            await _revoke_keys(connection, erasure)\n",
        "            pass\n",
        "erasure/test_keys_of_a_tenant.py",
    ),
    Sabotage(
        "erasure-without-audit",
        "erasure/eraser.py",
        '                await record(connection, _event(erasure, int(ended["turns"])))\n',
        "                pass\n",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "erasure-of-every-tenants-session",
        "erasure/rows.py",
        "    t.tenant_id = %(tenant)s AND t.session_id = %(session)s\n",
        "    t.session_id = %(session)s\n",
        "erasure/test_eraser.py",
    ),
    Sabotage(
        "remains-not-looked-for",
        "erasure/remains.py",
        "AND t.created_at < since.at) AS turns",
        "AND false) AS turns",
        "ops/test_erase_command.py",
    ),
)

AUDIT = (
    Sabotage(
        "refused-keys-not-recorded",
        "producer/caller.py",
        "        backend.refused_keys.note(scope, reason=found.reason.value, key_id=found.key_id)\n",
        "",
        "producer/api/test_refusals_recorded.py",
    ),
    Sabotage(
        "guesses-fill-the-memory",
        "producer/http/refusal_window.py",
        "if counts is None and len(self.by_address) < MOST_ADDRESSES:",
        "if counts is None:",
        "producer/http/test_refusal_window.py",
    ),
    Sabotage(
        "guesses-fill-the-audit",
        "producer/http/refusal_window.py",
        "named, further = ordered[:MOST_NAMED], ordered[MOST_NAMED:]",
        "named, further = ordered, []",
        "producer/http/test_refusal_window.py",
    ),
    Sabotage(
        "client-names-its-own-address",
        "producer/http/refusal_window.py",
        'given[-1].rpartition(b",")[2]',
        'given[-1].partition(b",")[0]',
        "producer/http/test_refusal_window.py",
    ),
    Sabotage(
        "use-of-keys-not-logged",
        "producer/entrance.py",
        "                held.callback(self._note_use, scope)\n",
        "                pass\n",
        "producer/api/test_stored_keys.py",
    ),
    Sabotage(
        "read-of-a-text-not-recorded",
        "ops/turns/shown_turn.py",
        '        await operator.audit(AuditKind.TEXT_READ, f"turn {turn_id}", tenant_id=tenant_id, counts={"turns": 1})\n',
        "",
        "ops/audit/test_audited_acts.py",
    ),
    Sabotage(
        "cancel-of-many-not-recorded",
        "ops/turns/cancel_many.py",
        "    await operator.audit(AuditKind.TURNS_CANCELED, _name(wanted), tenant_id=wanted.tenant_id, counts=counts)\n",
        "",
        "ops/audit/test_audited_acts.py",
    ),
    Sabotage(
        "api-reads-the-audit",
        "ops/roles/api.sql",
        "GRANT INSERT (kind, actor, tenant_id, subject, counts, reason) ON audit TO {role};",
        "GRANT SELECT, INSERT ON audit TO {role};",
        "ops/roles/test_grants.py",
    ),
)

SABOTAGES = (*RETENTION, *ERASURE, *AUDIT)
