-- Who may call the API. turnstile/schema.py says what each column means.

-- A key's secret is nowhere: 256 random bits, of which this has a digest.
CREATE TABLE api_keys (
    key_id        text NOT NULL PRIMARY KEY,
    digest        bytea NOT NULL,
    tenant_id     text NOT NULL,
    role          text NOT NULL,
    note          text,
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz,
    last_used_at  timestamptz,
    replaced_by   text,
    revoked_at    timestamptz,
    revoked_by    text,
    CONSTRAINT api_keys_role_known CHECK (role IN ('read', 'submit', 'operate', 'admin')),
    CONSTRAINT api_keys_digest_is_sha256 CHECK (octet_length(digest) = 32)
);

-- Tokens of pages: for one session, for a quarter of an hour. Relays delete those that have expired.
CREATE TABLE browser_tokens (
    token_id   text NOT NULL PRIMARY KEY,
    digest     bytea NOT NULL,
    tenant_id  text NOT NULL,
    session_id text NOT NULL,
    verbs      text[] NOT NULL,
    made_by    text NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT browser_tokens_digest_is_sha256 CHECK (octet_length(digest) = 32)
);
CREATE INDEX browser_tokens_expires_at ON browser_tokens (expires_at);
