-- `turnstile relay`, and workers that run one: it sends what is due, posts webhooks, deletes what is old, goes on with erasures, and
-- reports. It writes no message, and ends no turn but those that are erased.
GRANT SELECT ON turnstile_version, paused_queues TO {role};
-- A session whose first turn was submitted in its caller's transaction has no row before.
GRANT SELECT, INSERT, UPDATE (last_seq, halted_by, updated_at), DELETE ON sessions TO {role};
GRANT SELECT,
      UPDATE (seq, status, execute_at, send_at, sends, lease_until, finished_at, cancel_requested_at, cancel_reason, dead_lettered_at,
              joining, join_policy),
      DELETE
   ON turns TO {role};
GRANT SELECT, UPDATE (due_at, tries, delivered_at, error), DELETE ON webhooks TO {role};
GRANT SELECT ON webhook_secrets TO {role};
GRANT SELECT, UPDATE (lost_at), DELETE ON workers TO {role};
-- What operators did goes with its age.
GRANT SELECT, DELETE ON redrives TO {role};
GRANT SELECT, INSERT (kind, actor, tenant_id, subject, counts, reason), DELETE ON audit TO {role};
-- It locks what it deletes, and a lock needs the right to write a column.
GRANT SELECT, UPDATE (created_at), DELETE ON submissions, chosen_ids TO {role};
GRANT SELECT, UPDATE (expires_at), DELETE ON memory_items, browser_tokens TO {role};
-- The retention deletes old turns with all that belongs to them, or moves them to the archive.
GRANT SELECT, DELETE ON messages, turn_values, turn_attempts, turn_traces TO {role};
GRANT SELECT, INSERT, UPDATE (archived_at), DELETE ON archived_turns TO {role};
GRANT SELECT, INSERT (queue), UPDATE (reached, due_at) ON retention TO {role};
GRANT SELECT, INSERT (id, tenant_id, session_id, part_of, requested_by), UPDATE (due_at, up_to_seq, reached, turns, finished_at), DELETE
   ON erasures TO {role};
-- An erased tenant's keys.
GRANT SELECT (tenant_id, created_at), DELETE ON api_keys TO {role};
