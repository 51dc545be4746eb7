-- `turnstile api`: it submits, cancels and reads. It deletes nothing, and what handlers record it neither reads nor writes.
GRANT SELECT ON turnstile_version, archived_turns, webhooks TO {role};
GRANT SELECT, INSERT ON messages TO {role};
GRANT EXECUTE ON FUNCTION is_of_other_tenant TO {role};
GRANT SELECT, INSERT, UPDATE (last_seq, halted_by, updated_at) ON sessions TO {role};
GRANT SELECT, INSERT, UPDATE (status, send_at, sends, finished_at, cancel_requested_at, cancel_reason) ON turns TO {role};
GRANT SELECT, INSERT, UPDATE (turn_id, answer) ON submissions TO {role};
GRANT SELECT, INSERT, UPDATE (submitted_at, canceled_at, reason) ON chosen_ids TO {role};
-- It finds a client's key by its id and notes its use, and records keys that it has refused.
GRANT SELECT (key_id, digest, tenant_id, role, expires_at, revoked_at, last_used_at), UPDATE (last_used_at) ON api_keys TO {role};
GRANT SELECT, INSERT ON browser_tokens TO {role};
GRANT INSERT (kind, actor, tenant_id, subject, counts, reason) ON audit TO {role};
-- It begins the erasure of a session, which the relays go on with. A session may have nothing left but its memory.
GRANT SELECT, INSERT (id, tenant_id, session_id, requested_by), UPDATE (requested_at, up_to_seq, reached) ON erasures TO {role};
GRANT SELECT (tenant_id, session_id) ON memory_items TO {role};
GRANT SELECT (queue, queue_latency_seconds, lease_seconds, seen_at) ON workers TO {role};
