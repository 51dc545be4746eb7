-- Which of a tenant's webhook secrets sign. No secret is here: each is derived from the tenant, the number, and a secret of the settings.

CREATE TABLE webhook_secrets (
    tenant_id   text NOT NULL,
    number      integer NOT NULL,
    signs_until timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, number)
);
