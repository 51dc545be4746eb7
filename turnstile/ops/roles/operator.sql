-- All other commands: it reads everything, cancels, redrives, drops, pauses and archives. It submits as applications do, by the function.
GRANT SELECT ON turnstile_version, archived_turns, webhooks, workers, turn_attempts, turn_values, messages, submissions, chosen_ids
   TO {role};
GRANT SELECT, UPDATE (last_seq, halted_by, updated_at) ON sessions TO {role};
GRANT SELECT,
      UPDATE (status, attempt, failures, crashes, generation, seq, execute_at, send_at, sends, expires_at, cancel_requested_at,
              cancel_reason, error_class, error, dead_lettered_at, dropped_at, dropped_by, trace_id, span_id, parent_span_id,
              queued_at, first_started_at, started_at, finished_at)
   ON turns TO {role};
GRANT SELECT, INSERT ON turn_traces TO {role};
GRANT SELECT, INSERT, UPDATE (paused_by, reason), DELETE ON paused_queues TO {role};
GRANT SELECT, INSERT, UPDATE (concurrency, rate, burst, set_by, reason, set_at), DELETE ON limit_overrides TO {role};
-- A rotation of a tenant's webhook secret.
GRANT SELECT, INSERT (tenant_id, number, signs_until), UPDATE (signs_until) ON webhook_secrets TO {role};
-- A redrive under way adds its turns, and ends. Who asked for it, for what and when can't be changed, and no row goes.
GRANT SELECT, INSERT (queue, requested_by, filter, matched, turn_ids, finished_at, outcome),
      UPDATE (turn_ids, sent, unsent, finished_at, outcome, reason)
   ON redrives TO {role};
-- What is in the audit stays.
GRANT SELECT, INSERT (kind, actor, tenant_id, subject, counts, reason) ON audit TO {role};
GRANT SELECT, INSERT (key_id, digest, tenant_id, role, note, created_by, expires_at),
      UPDATE (expires_at, replaced_by, revoked_at, revoked_by)
   ON api_keys TO {role};
-- `archive` moves turns, with all that belongs to them, and `erase` deletes them wherever they are.
GRANT INSERT, DELETE ON archived_turns TO {role};
GRANT DELETE ON turns, sessions, messages, turn_values, turn_attempts, turn_traces, webhooks, submissions, chosen_ids, api_keys TO {role};
GRANT SELECT (tenant_id, expires_at), DELETE ON browser_tokens TO {role};
GRANT SELECT, DELETE ON memory_items TO {role};
GRANT SELECT, INSERT (id, tenant_id, session_id, part_of, requested_by), UPDATE (requested_at, due_at, up_to_seq, reached, turns, finished_at), DELETE
   ON erasures TO {role};
-- `submit --direct`.
GRANT EXECUTE ON FUNCTION submit_turn TO {role};
-- `doctor` reads the last fence, and `doctor --fix` advances it.
GRANT SELECT ON SEQUENCE fence_seq TO {role};
GRANT EXECUTE ON FUNCTION advance_sequences TO {role};
