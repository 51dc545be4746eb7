-- The legal changes of a turn's status; a test compares them with turnstile/turn/status.py. The trigger refuses every other change,
-- whether by a bug or by a manual statement.

CREATE FUNCTION turns_refuse_illegal_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status <> NEW.status AND NOT (
        (OLD.status = 'PENDING' AND NEW.status IN ('RUNNING', 'CANCELED'))
        OR (OLD.status = 'RUNNING' AND NEW.status IN ('PENDING', 'SUCCEEDED', 'FAILED', 'CANCELED'))
        OR (OLD.status = 'FAILED' AND NEW.status = 'PENDING' AND NEW.generation = OLD.generation + 1)
    ) THEN
        RAISE EXCEPTION 'turn % may not go from % to %', OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'turns_legal_transition';
    END IF;
    IF NEW.fence < OLD.fence OR (NEW.status = 'RUNNING' AND NEW.fence = OLD.fence) THEN
        RAISE EXCEPTION 'the fence of turn % may not go from % to %', OLD.id, OLD.fence, NEW.fence
            USING ERRCODE = 'check_violation', CONSTRAINT = 'turns_fence_rises';
    END IF;
    RETURN NEW;
END $$;

-- OF status, fence: a heartbeat writes only the lease and does not run the trigger.
CREATE TRIGGER turns_legal_transition BEFORE UPDATE OF status, fence ON turns
    FOR EACH ROW EXECUTE FUNCTION turns_refuse_illegal_transition();

CREATE FUNCTION turns_refuse_illegal_birth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'turn % may not begin as %', NEW.id, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'turns_legal_transition';
END $$;

-- A new turn is PENDING, or CANCELED if its cancel came before its submit.
CREATE TRIGGER turns_legal_birth BEFORE INSERT ON turns
    FOR EACH ROW WHEN (NEW.status NOT IN ('PENDING', 'CANCELED')) EXECUTE FUNCTION turns_refuse_illegal_birth();
