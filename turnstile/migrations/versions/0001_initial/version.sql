-- alembic's table names the version of the tables. This column names the oldest version whose programs still work on them. A later
-- migration that takes away what older programs use sets it. A downgrade leaves alembic's table, and the column with it.
ALTER TABLE turnstile_version ADD COLUMN IF NOT EXISTS serves_from text NOT NULL DEFAULT '0001';
