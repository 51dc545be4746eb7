-- Fences and memory versions that never come twice, whatever the database is restored to (ADR 0060).

-- Called on each connection of a worker before anything else (turnstile/statements/advance_fences.py), by a role that may draw from
-- the sequences and not set them: hence SECURITY DEFINER. The lock keeps two calls apart: the one that looked first and set last
-- would take the sequence back. Draws go on meanwhile; 100,000 of them between the look and the set would be needed to be overtaken.
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
