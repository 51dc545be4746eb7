"""Checks of who calls: roles, keys, tokens, JWTs, websites, and the walls between tenants."""

from tests.proof.saboteur.sabotage import Sabotage

ROLES = (
    Sabotage(
        "role-not-asked",
        "producer/caller.py",
        "if not caller.role.includes(needed):",
        "if False:",
        "producer/api/test_access_matrix.py",
    ),
    Sabotage(
        "role-includes-those-above",
        "access/role.py",
        "return order.index(self) >= order.index(needed)",
        "return True",
        "access/test_role.py",
    ),
)

KEYS = (
    Sabotage(
        "key-by-its-id-alone",
        "producer/credentials/credentials.py",
        "if known is None or not hmac.compare_digest(known.stored.digest, presented.digest):",
        "if known is None:",
        "producer/api/test_stored_keys.py",
    ),
    Sabotage(
        "revoked-key-counts",
        "producer/credentials/credentials.py",
        "if stored.revoked:",
        "if False:",
        "producer/api/test_stored_keys.py",
    ),
    Sabotage(
        "expired-key-counts",
        "producer/credentials/credentials.py",
        "if known.expires_at is not None and self._clock() >= known.expires_at:",
        "if False:",
        "producer/api/test_stored_keys.py",
    ),
    Sabotage(
        "known-key-never-read-again",
        "producer/credentials/key_cache.py",
        "if now < known.read_at + FRESH_SECONDS:",
        "if True:",
        "producer/credentials/test_key_cache.py",
    ),
    Sabotage(
        "known-key-valid-for-ever-in-an-outage",
        "producer/credentials/key_cache.py",
        "may_keep = now < known.read_at + AWAY_SECONDS",
        "may_keep = True",
        "producer/credentials/test_key_cache.py",
    ),
    Sabotage(
        "rotated-key-without-end",
        "statements/api_keys.py",
        "expires_at = least(k.expires_at, clock_timestamp() + %(overlap)s::float8 * interval '1 second')",
        "expires_at = k.expires_at",
        "ops/keys/test_key_command.py",
    ),
    Sabotage(
        "open-again-once-all-keys-are-revoked",
        "queries/api_keys.py",
        "SELECT EXISTS (SELECT FROM api_keys) AS found",
        "SELECT EXISTS (SELECT FROM api_keys WHERE revoked_at IS NULL) AS found",
        "producer/api/test_stored_keys.py",
    ),
    Sabotage(
        "open-to-other-machines",
        "config/settings.py",
        "return self.api_host in validators.LOCAL_HOSTS or self.api_serves_strangers_without_keys",
        "return True",
        "producer/api/test_stored_keys.py",
    ),
)

TOKENS = (
    Sabotage(
        "token-for-any-verb",
        "producer/caller.py",
        "if caller.limit is not None and verb not in caller.limit.verbs:",
        "if False:",
        "producer/api/test_browser_tokens.py",
    ),
    Sabotage(
        "token-for-any-session",
        "producer/routes/session_limit.py",
        'if named.get("session_id", caller.limit.session_id) != caller.limit.session_id:',
        "if False:",
        "producer/api/test_browser_tokens.py",
    ),
    Sabotage(
        "token-for-turns-of-any-session",
        "producer/routes/session_limit.py",
        "if turn is None or turn.session_id != caller.limit.session_id:",
        "if turn is None:",
        "producer/api/test_browser_tokens.py",
    ),
    Sabotage(
        "token-for-lists-of-the-tenant",
        "producer/routes/session_limit.py",
        'if not {"session_id", "turn_id"} & named.keys():',
        "if False:",
        "producer/api/test_browser_tokens.py",
    ),
    Sabotage(
        "token-for-more-than-its-maker-may",
        "producer/routes/token_route.py",
        "        require(caller, verb.role, verb)",
        "        pass",
        "producer/api/test_browser_tokens.py",
    ),
    Sabotage(
        "token-outlives-its-key",
        "queries/api_keys.py",
        "least(t.expires_at, k.expires_at)",
        "t.expires_at",
        "producer/api/test_browser_tokens.py",
    ),
    Sabotage(
        "token-of-a-revoked-key",
        "queries/api_keys.py",
        "k.revoked_at IS NOT NULL OR k.key_id IS NULL AND starts_with(t.made_by, 'tsk_') AS revoked",
        "false AS revoked",
        "producer/api/test_browser_tokens.py",
    ),
    Sabotage(
        "token-for-a-month",
        "statements/browser_tokens.py",
        "LIFETIME_SECONDS = 900.0",
        "LIFETIME_SECONDS = 2_592_000.0",
        "producer/api/test_browser_tokens.py",
    ),
)

JWTS = (
    Sabotage(
        "jwt-of-any-algorithm",
        "producer/credentials/jwts.py",
        'if header.get("alg") not in self._settings.algorithms or not isinstance(key_id, str | None):',
        "if not isinstance(key_id, str | None):",
        "producer/credentials/test_jwts.py",
    ),
    Sabotage(
        "jwt-by-a-shared-secret",
        "config/jwt_settings.py",
        '"ES512", "EdDSA"\n]',
        '"ES512", "EdDSA", "HS256"\n]',
        "config/test_browsers_and_issuers.py",
    ),
    Sabotage(
        "jwt-without-signature",
        "producer/credentials/jwts.py",
        'options={"require"',
        'options={"verify_signature": False, "require"',
        "producer/credentials/test_jwts.py",
    ),
    Sabotage(
        "jwt-for-another-audience",
        "producer/credentials/jwts.py",
        'options={"require"',
        'options={"verify_aud": False, "require"',
        "producer/credentials/test_jwts.py",
    ),
    Sabotage(
        "jwt-of-another-issuer",
        "producer/credentials/jwts.py",
        "            issuer=self._settings.issuer,\n",
        "",
        "producer/credentials/test_jwts.py",
    ),
    Sabotage(
        "jwt-that-has-expired",
        "producer/credentials/jwts.py",
        "leeway=LEEWAY_SECONDS",
        "leeway=1e9",
        "producer/credentials/test_jwts.py",
    ),
    Sabotage(
        "jwt-without-expiry",
        "producer/credentials/jwts.py",
        '["exp", "iss", "aud", "sub"]',
        '["iss", "aud", "sub"]',
        "producer/credentials/test_jwts.py",
    ),
    Sabotage(
        "jwt-key-that-is-a-secret",
        "producer/credentials/issuer_keys.py",
        'one.get("kty") == "oct" or ',
        "",
        "producer/credentials/test_issuer_keys.py",
    ),
    Sabotage(
        "jwt-subject-in-the-log",
        "producer/credentials/jwts.py",
        'f"jwt:{subject[:16]}"',
        "f\"jwt:{claims['sub']}\"",
        "producer/credentials/test_jwts.py",
    ),
)

WEBSITES = (
    Sabotage(
        "host-not-looked-at",
        "producer/http/local_only.py",
        "return len(hosts) == 1 and all(map(_names_this_machine, hosts + origins))",
        "return all(map(_names_this_machine, origins))",
        "producer/http/test_local_only.py",
    ),
    Sabotage(
        "origin-not-looked-at",
        "producer/http/local_only.py",
        "hosts + origins",
        "hosts",
        "producer/http/test_local_only.py",
    ),
    Sabotage(
        "pages-of-any-origin",
        "producer/http/pages.py",
        "allow_origins=origins",
        'allow_origins=["*"]',
        "producer/http/test_pages.py",
    ),
    Sabotage(
        "pages-with-cookies",
        "producer/http/pages.py",
        "allow_credentials=False",
        "allow_credentials=True",
        "producer/http/test_pages.py",
    ),
    Sabotage(
        "docs-may-call-any-host",
        "producer/routes/docs_page.py",
        "connect-src 'self'",
        "connect-src *",
        "producer/routes/test_docs_page.py",
    ),
    Sabotage(
        "docs-for-strangers",
        "config/settings.py",
        "return self.api_host in validators.LOCAL_HOSTS if self.api_docs is None else self.api_docs",
        "return self.api_docs is not False",
        "producer/routes/test_docs_page.py",
    ),
)

TENANTS = (
    Sabotage(
        "list-of-all-tenants",
        "queries/turn_lists.py",
        'conditions = [*_after(filters), *equal(filters, names=("tenant_id",))]',
        "conditions = _after(filters)",
        "queries/test_turn_lists.py",
    ),
    Sabotage(
        "history-of-all-tenants",
        "queries/session_messages.py",
        "WHERE t.tenant_id = %(tenant)s AND t.session_id = %(session)s AND t.seq <= %(seq)s",
        "WHERE t.session_id = %(session)s AND t.seq <= %(seq)s",
        "queries/test_session_messages.py",
    ),
    Sabotage(
        "turn-of-another-tenant",
        "queries/turns.py",
        'found = {TurnKey(row["tenant_id"], row["id"]): row for row in rows}',
        'found = {key: row for row in rows for key in wanted if key.id == row["id"]}',
        "queries/test_turns.py",
    ),
    Sabotage(
        "archived-turn-of-another-tenant",
        "archive/reads.py",
        "WHERE a.id = %(id)s AND a.tenant_id = %(tenant)s AND NOT",
        "WHERE a.id = %(id)s AND NOT",
        "archive/test_reads.py",
    ),
    Sabotage(
        "cancel-of-another-tenants-turn",
        "statements/cancel.py",
        """WHERE t.id = %(id)s AND {off_index("t.tenant_id")} = %(tenant)s FOR NO KEY UPDATE\n""",
        """WHERE t.id = %(id)s FOR NO KEY UPDATE\n""",
        "statements/test_cancel.py",
    ),
    Sabotage(
        "id-of-another-tenant-chosen",
        "turn/identifiers.py",
        "turn_id.hex.startswith(chosen_prefix(tenant_id)) and ",
        "",
        "producer/api/test_chosen_ids.py",
    ),
    Sabotage(
        "row-security-for-nobody",
        "ops/roles/policies.py",
        "_OF_TENANTS = Rows(_OWN, _OWN)",
        '_OF_TENANTS = Rows("true", "true")',
        "ops/roles/test_row_security.py",
    ),
    Sabotage(
        "row-security-for-reads-alone",
        "ops/roles/policies.py",
        "_OF_TENANTS = Rows(_OWN, _OWN)",
        '_OF_TENANTS = Rows(_OWN, "true")',
        "ops/roles/test_row_security.py",
    ),
    Sabotage(
        "messages-into-turns-of-others",
        "ops/roles/policies.py",
        '"NOT is_of_other_tenant(turn_id)"',
        '"true"',
        "ops/roles/test_row_security.py",
    ),
    Sabotage(
        "tenant-stays-on-the-connection",
        "backends/postgres/tenant_setting.py",
        "SELECT set_config('turnstile.tenants', %(names)s, true)",
        "SELECT set_config('turnstile.tenants', %(names)s, false)",
        "backends/postgres/test_tenant_setting.py",
    ),
    Sabotage(
        "api-may-delete-messages",
        "ops/roles/api.sql",
        "GRANT SELECT, INSERT ON messages TO {role};",
        "GRANT SELECT, INSERT, DELETE ON messages TO {role};",
        "ops/roles/test_grants.py",
    ),
    Sabotage(
        "owners-function-by-a-callers-path",
        "migrations/versions/0001_initial/sequences.sql",
        "SET search_path = %I, pg_temp', current_schema());",
        "SET search_path = pg_temp, %I', current_schema());",
        "migrations/test_functions.py",
    ),
    Sabotage(
        "owners-function-for-everybody",
        "migrations/versions/0001_initial/sequences.sql",
        "REVOKE EXECUTE ON FUNCTION advance_sequences FROM PUBLIC;",
        "",
        "migrations/test_functions.py",
    ),
)

SABOTAGES = (*ROLES, *KEYS, *TOKENS, *JWTS, *WEBSITES, *TENANTS)
