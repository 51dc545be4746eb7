-- Fences and memory versions are never drawn twice, also after the database was restored to an earlier moment (ADR 0004).

-- Each connection of a worker calls it first (turnstile/statements/advance_fences.py). The worker's role may draw from the sequences
-- but not set them: hence SECURITY DEFINER. The lock serialises the calls: otherwise one that reads first and sets last would set
-- the sequence back. Other connections may draw meanwhile; the margin of 100,000 allows for their draws between read and set.
CREATE FUNCTION advance_sequences(at_least bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    goal bigint := greatest(at_least, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
BEGIN
    IF goal > 9007199254740991 THEN
        RAISE invalid_parameter_value
            USING MESSAGE = 'sequences may not be advanced to ' || goal || ': Redis counts exactly up to 2^53';
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
