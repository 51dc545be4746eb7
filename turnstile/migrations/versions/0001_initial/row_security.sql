-- The rows that the API's role sees are those of the tenants that its transaction has named. `turnstile grant` makes the policies, for the
-- roles that it is given (turnstile/ops/roles/policies.py). A role without a policy sees no row. The owner of the tables sees all.

ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE submissions ENABLE ROW LEVEL SECURITY;
ALTER TABLE chosen_ids ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE archived_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE erasures ENABLE ROW LEVEL SECURITY;

-- For new messages, which name a turn and no tenant. One statement writes a turn and its input, and does not see the turn yet. So the
-- question is not whether the turn is the caller's: only a turn that exists and is another's refuses the message. Whoever asks sees
-- no row of others, hence SECURITY DEFINER.
CREATE FUNCTION is_of_other_tenant(of_turn uuid) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT EXISTS (SELECT FROM turns t WHERE t.id = of_turn
                      AND NOT t.tenant_id = ANY (string_to_array(coalesce(current_setting('turnstile.tenants', true), ''), ',')))
$$;
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION is_of_other_tenant SET search_path = %I, pg_temp', current_schema());
END $$;
REVOKE EXECUTE ON FUNCTION is_of_other_tenant FROM PUBLIC;
