-- `turnstile worker --no-relay`, and the function: it claims and settles, and does what a handler asks for. A handler may use the role,
-- too: the URL is in its environment.
GRANT SELECT ON turnstile_version, archived_turns, paused_queues, limit_overrides TO {role};
GRANT SELECT, INSERT, UPDATE (last_seq, halted_by, updated_at) ON sessions TO {role};
GRANT SELECT, INSERT,
      UPDATE (status, attempt, failures, crashes, generation, fence, claim_id, lease_until, worker_id, seq, execute_at, send_at, sends,
              expires_at, cancel_requested_at, cancel_reason, error_class, error, dead_lettered_at, dropped_at, dropped_by,
              trace_id, span_id, parent_span_id, queued_at, first_started_at, started_at, finished_at, joining, join_policy)
   ON turns TO {role};
GRANT SELECT, INSERT ON messages, turn_values, turn_attempts, turn_traces, submissions TO {role};
GRANT SELECT, INSERT, UPDATE (submitted_at) ON chosen_ids TO {role};
GRANT SELECT, INSERT,
      UPDATE (content, context, priority, tags, version, write_id, fence, created_at, updated_at, expires_at)
   ON memory_items TO {role};
GRANT SELECT, INSERT,
      UPDATE (busy, queue_latency_seconds, draining, deaf_for_seconds, blocked_for_seconds, starved_for_seconds, unrenewed, blocked_by, broken_by,
              seen_at, lost_at),
      DELETE
   ON workers TO {role};
-- It records a dead letter that somebody has moved back to its queue. The server gives the number and the time.
GRANT INSERT (queue, requested_by, filter, matched, finished_at, outcome) ON redrives TO {role};
GRANT USAGE ON SEQUENCE fence_seq, memory_version_seq TO {role};
GRANT EXECUTE ON FUNCTION advance_sequences TO {role};
