-- The completion webhooks that are owed.

CREATE TABLE webhooks (
    turn_id      uuid NOT NULL,
    generation   integer NOT NULL,
    tenant_id    text NOT NULL,
    url          text NOT NULL,
    event        json NOT NULL,
    due_at       timestamptz,
    tries        integer NOT NULL DEFAULT 0,
    delivered_at timestamptz,
    error        text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, generation)
);
CREATE INDEX webhooks_due_at ON webhooks (due_at) WHERE due_at IS NOT NULL;

-- Every end of a turn owes its webhook in the same commit. The event is recorded here, because a redrive changes the turn, and
-- because each try must send the same event. It has no error text and no message content: the client chooses the address.
--
-- It runs as the owner of the tables: the roles that end turns need no right to write webhooks.
CREATE FUNCTION turns_owe_webhook() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO webhooks (turn_id, generation, tenant_id, url, due_at, event)
    VALUES (NEW.id, NEW.generation, NEW.tenant_id, NEW.webhook_url, clock_timestamp(), json_build_object(
        'id', NEW.id, 'tenant_id', NEW.tenant_id, 'session_id', NEW.session_id, 'seq', NEW.seq, 'queue', NEW.queue, 'status', NEW.status,
        'generation', NEW.generation, 'attempt', NEW.attempt, 'error_class', NEW.error_class,
        'cancel_reason', NEW.cancel_reason, 'trace_id', NEW.trace_id, 'metadata', NEW.metadata,
        'created_at', NEW.created_at, 'started_at', NEW.started_at, 'finished_at', NEW.finished_at))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- Another application's table may have the same name, and a manual statement on `turns` may come from a session with its search path
-- or with a temporary table.
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION turns_owe_webhook SET search_path = %I, pg_temp', current_schema());
END $$;

REVOKE EXECUTE ON FUNCTION turns_owe_webhook FROM PUBLIC;

-- For a turn without an address, only the comparison runs.
CREATE TRIGGER turns_owe_webhook AFTER UPDATE OF status ON turns FOR EACH ROW
    WHEN (NEW.webhook_url IS NOT NULL AND NEW.status IN ('SUCCEEDED', 'FAILED', 'CANCELED') AND OLD.status <> NEW.status)
    EXECUTE FUNCTION turns_owe_webhook();
CREATE TRIGGER turns_owe_webhook_at_birth AFTER INSERT ON turns FOR EACH ROW
    WHEN (NEW.webhook_url IS NOT NULL AND NEW.status = 'CANCELED') EXECUTE FUNCTION turns_owe_webhook();
