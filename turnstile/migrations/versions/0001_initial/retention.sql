-- How far the retention of each queue has come. One statement at a time works on a row: it is the lock of the queue's retention, for all
-- relays together.

CREATE TABLE retention (
    queue   text NOT NULL PRIMARY KEY,
    reached timestamptz NOT NULL DEFAULT '-infinity',
    due_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
