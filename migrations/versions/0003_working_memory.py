"""The durable items of sessions' working memories."""

from alembic import op

revision = "0003"
down_revision = "0002"

UPGRADE = """
CREATE SEQUENCE memory_version_seq AS bigint;

ALTER TABLE sessions ADD COLUMN memory_version bigint NOT NULL DEFAULT 0;

CREATE TABLE memory_items (
    tenant_id  text NOT NULL,
    session_id text NOT NULL,
    kind       text NOT NULL,
    key        text NOT NULL,
    content    json,
    context    text,
    priority   integer NOT NULL,
    tags       text[] NOT NULL,
    version    bigint NOT NULL,
    write_id   uuid NOT NULL,
    fence      bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, session_id, kind, key)
);
CREATE INDEX memory_items_expires_at ON memory_items (expires_at);
"""

DOWNGRADE = """
DROP TABLE memory_items;
ALTER TABLE sessions DROP COLUMN memory_version;
DROP SEQUENCE memory_version_seq;
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
