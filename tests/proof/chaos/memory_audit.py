"""The audit of durable memory: every change of an item, in the transaction that made it, numbered with the changes of turns.

A statement that writes an item locks its turn's row, as do claim, settle and takeover: their numbers show whether a claim
still stood when something was written under it.
"""

from typing import LiteralString

INSTALL: LiteralString = """
CREATE TABLE audit_memory (
    n bigint NOT NULL DEFAULT nextval(pg_get_serial_sequence('audit_turns', 'n')),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tenant text NOT NULL, session text NOT NULL, kind text NOT NULL, key text NOT NULL, version bigint NOT NULL,
    fence bigint NOT NULL, content json, context text, tags text[] NOT NULL);

CREATE FUNCTION audit_memory() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_memory (tenant, session, kind, key, version, fence, content, context, tags)
    VALUES (NEW.tenant_id, NEW.session_id, NEW.kind, NEW.key, NEW.version, NEW.fence, NEW.content, NEW.context, NEW.tags);
    RETURN NULL;
END $$;

CREATE TRIGGER audit_memory_insert AFTER INSERT ON memory_items FOR EACH ROW EXECUTE FUNCTION audit_memory();
-- A reseal changes the form of a content, and neither the content nor its version.
CREATE TRIGGER audit_memory_update AFTER UPDATE ON memory_items FOR EACH ROW
    WHEN (OLD.version <> NEW.version) EXECUTE FUNCTION audit_memory();
"""

# A content is the value and its metadata; an item without one is deleted.
COLLECT: dict[str, LiteralString] = {
    "memory_changes": """
        SELECT n, extract(epoch FROM at)::float8 AS at, tenant, session, kind, key, version, fence,
               content IS NULL AS gone, content->0 AS value, context, tags
          FROM audit_memory ORDER BY n""",
    "memory_items": """
        SELECT tenant_id AS tenant, session_id AS session, kind, key, version, content IS NULL AS gone, content->0 AS value
          FROM memory_items ORDER BY tenant, session, kind, key""",
}
