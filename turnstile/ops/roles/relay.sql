-- `turnstile relay`, and workers that run one: it sends what is due, posts webhooks, deletes what is old, and reports. It writes no
-- message, and ends no turn.
GRANT SELECT ON turnstile_version, paused_queues, redrives TO {role};
GRANT SELECT, UPDATE (last_seq, updated_at), DELETE ON sessions TO {role};
GRANT SELECT, UPDATE (seq, execute_at, send_at, sends, lease_until, dead_lettered_at, joining, join_policy), DELETE ON turns TO {role};
GRANT SELECT, UPDATE (due_at, tries, delivered_at, error), DELETE ON webhooks TO {role};
GRANT SELECT ON webhook_secrets TO {role};
GRANT SELECT, UPDATE (lost_at) ON workers TO {role};
-- It locks what it deletes, and a lock needs the right to write a column.
GRANT SELECT, UPDATE (created_at), DELETE ON submissions, chosen_ids TO {role};
GRANT SELECT, UPDATE (expires_at), DELETE ON memory_items TO {role};
-- The retention deletes old turns with all that belongs to them, or moves them to the archive.
GRANT SELECT, DELETE ON messages, turn_values, turn_attempts, turn_traces TO {role};
GRANT SELECT, INSERT ON archived_turns TO {role};
GRANT SELECT, INSERT (queue), UPDATE (reached, due_at) ON retention TO {role};
