-- Submits a turn in its caller's transaction (ADR 0051). The turn appears with the commit, and a relay then gives it its place.
--
-- The transaction may stay open for as long as it likes, so no other may wait for what it writes. So the function leaves the row of
-- the session alone, and gives the turn no `seq`. Only a request with the same key, or with the same chosen id, waits.
--
-- `request` is a JSON object (turnstile/statements/submit_in_transaction.py). The result is one, too: the answer, and for a request
-- that is recorded already its fingerprint. NULL: another turn has the chosen id, and nothing was written.
--
-- It runs as the owner of the tables: a role that may only submit needs no right on any of them, and reads nothing.
CREATE FUNCTION submit_turn(request text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r record;
    met record;
    name_rule constant text := '^[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}$';
    at timestamptz := clock_timestamp();
    later timestamptz;
    expires timestamptz;
    is_taken boolean;
    answer jsonb;
    earlier text;
BEGIN
    SELECT * INTO r FROM json_to_record(request::json) AS x (
        id uuid, tenant_id text, session_id text, queue text, key text, fingerprint text, chosen boolean, execute_at timestamptz,
        expires_in float8, max_attempts integer, timeout_seconds float8, trace_id text, span_id text, parent_span_id text,
        webhook_url text, head_start float8);
    -- What travels in messages. turnstile.submit has checked all of it; a role that may only submit may also call this by hand.
    IF NOT (r.tenant_id ~ name_rule AND r.session_id ~ name_rule AND r.queue ~ name_rule)
       OR r.session_id LIKE 'compensation:%' OR r.trace_id !~ '^[0-9a-f]{32}$' OR r.span_id !~ '^[0-9a-f]{16}$' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'no message can name this turn: submit it by turnstile.submit';
    END IF;
    later := CASE WHEN r.execute_at > at THEN r.execute_at END;
    expires := coalesce(later, at) + make_interval(secs => r.expires_in);
    answer := jsonb_build_object(
        'id', r.id, 'session_id', r.session_id, 'queue', r.queue, 'execute_at', later, 'expires_at', expires, 'created_at', at,
        'trace_id', r.trace_id, 'span_id', r.span_id, 'parent_span_id', r.parent_span_id);
    -- Only a chosen id can be taken: what reads nothing collides with no other SERIALIZABLE transaction.
    is_taken := r.chosen AND EXISTS (SELECT FROM turns t WHERE t.id = r.id);
    WHILE r.key IS NOT NULL LOOP
        IF NOT is_taken THEN
            INSERT INTO submissions (tenant_id, key, fingerprint, turn_id, answer)
            VALUES (r.tenant_id, r.key, decode(r.fingerprint, 'hex'), r.id, answer) ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
        END IF;
        SELECT jsonb_build_object('answer', s.answer, 'fingerprint', encode(s.fingerprint, 'hex'))::text INTO earlier
          FROM submissions s WHERE s.tenant_id = r.tenant_id AND s.key = r.key;
        IF FOUND OR is_taken THEN
            RETURN earlier;
        END IF;
    END LOOP;
    IF r.chosen THEN
        -- Its cancel may have come first.
        INSERT INTO chosen_ids AS c (tenant_id, turn_id, submitted_at) VALUES (r.tenant_id, r.id, at)
        ON CONFLICT (tenant_id, turn_id) DO UPDATE SET submitted_at = coalesce(c.submitted_at, excluded.submitted_at)
        RETURNING c.canceled_at, c.reason INTO met;
    ELSE
        SELECT NULL::timestamptz AS canceled_at, NULL::text AS reason INTO met;
    END IF;
    -- Due for the relay at once, also if it is scheduled: the relay then makes the row of a session that is new.
    INSERT INTO turns (id, tenant_id, session_id, queue, execute_at, send_at, expires_at, max_attempts, timeout_seconds, metadata,
                       trace_id, span_id, parent_span_id, created_at, queued_at, counts_from, webhook_url,
                       status, finished_at, cancel_requested_at, cancel_reason)
    VALUES (r.id, r.tenant_id, r.session_id, r.queue, later, CASE WHEN met.canceled_at IS NULL THEN at END, expires, r.max_attempts,
            r.timeout_seconds, request::json -> 'metadata', r.trace_id, r.span_id, r.parent_span_id, at, coalesce(later, at),
            coalesce(later, at) - make_interval(secs => r.head_start), r.webhook_url,
            CASE WHEN met.canceled_at IS NULL THEN 'PENDING' ELSE 'CANCELED' END,
            CASE WHEN met.canceled_at IS NOT NULL THEN at END, met.canceled_at, met.reason);
    -- Not from the record, in which the JSON value null is NULL.
    INSERT INTO messages (turn_id, ordinal, role, content) VALUES (r.id, 0, 'user', request::json -> 'content');
    -- The commit tells the relay that listens (turnstile/relay/arrivals.py). A lost notification costs the wait for its next round.
    PERFORM pg_notify('turnstile', current_schema());
    RETURN jsonb_build_object('answer', answer)::text;
END $$;

-- Nothing of its caller's may stand in for what it names, and an answer that is kept reads the same for each caller. It finds each row
-- by its key, whatever the planner of the caller's connection believes.
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION submit_turn SET search_path = %I, pg_temp', current_schema());
END $$;
ALTER FUNCTION submit_turn SET timezone = 'UTC';
ALTER FUNCTION submit_turn SET enable_seqscan = off;
REVOKE EXECUTE ON FUNCTION submit_turn FROM PUBLIC;
