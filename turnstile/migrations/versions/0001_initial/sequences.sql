-- Fences and memory versions are never drawn twice, also after the database was restored to an earlier moment (ADR 0004).

-- Each connection of a worker calls it first (turnstile/statements/advance_fences.py). The worker's role may draw from the sequences
-- but not set them: hence SECURITY DEFINER. The lock serialises the calls: otherwise one that reads first and sets last would set
-- the sequence back. Other connections may draw meanwhile; the margin of 100,000 allows for their draws between read and set.
--
-- The bound keeps a role that may call it from using the sequences up, which only their owner can undo. A fence that a restore asks
-- for is ahead of the clock only by as much as the lost server's clock was.
CREATE FUNCTION advance_sequences(at_least bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    clock bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    goal bigint := greatest(at_least, clock);
BEGIN
    IF goal - clock > 30 * 86400000000 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'sequences may not be advanced to ' || goal
            || ', more than 30 days ahead of the clock: set the clock of the server right, or let the owner of the tables use setval';
    END IF;
    PERFORM pg_advisory_xact_lock(1953852014, 7);
    IF (SELECT last_value FROM fence_seq) < goal - 100000 THEN
        PERFORM setval('fence_seq', goal);
    END IF;
    IF (SELECT last_value FROM memory_version_seq) < goal - 100000 THEN
        PERFORM setval('memory_version_seq', goal);
    END IF;
    RETURN (SELECT last_value FROM fence_seq);
END $$;

-- It runs as the owner of the tables, so nothing of its caller's may stand in for what it names. A session's temporary schema comes
-- first where it is not named.
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION advance_sequences SET search_path = %I, pg_temp', current_schema());
END $$;
REVOKE EXECUTE ON FUNCTION advance_sequences FROM PUBLIC;
