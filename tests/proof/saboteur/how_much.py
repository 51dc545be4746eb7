"""Checks of how much: rate limits, caps, places, sizes, the shares of tenants."""

from tests.proof.saboteur.sabotage import Sabotage

RATES = (
    Sabotage(
        "rate-limit-refuses-nothing",
        "producer/rates/rate_limits.py",
        "if not count.allowed:",
        "if False:",
        "producer/api/test_rate_limits.py",
    ),
    Sabotage(
        "rate-limit-off-without-redis",
        "backends/window_count.py",
        "return Count(spent <= window.limit,",
        "return Count(True,",
        "backends/test_window_count.py",
    ),
    Sabotage(
        "rate-of-a-session-shared-by-tenants",
        "producer/rates/rate_limits.py",
        "(asked.caller.tenant_id, asked.session_id)",
        "(asked.session_id,)",
        "producer/api/test_rate_limits.py",
    ),
    Sabotage(
        "session-spends-its-tenants-rate",
        "producer/rates/rate_limits.py",
        'NARROWEST_FIRST = ("session", "key", "tenant")',
        'NARROWEST_FIRST = ("tenant", "key", "session")',
        "producer/api/test_rate_limits.py",
    ),
    Sabotage(
        "strangers-keys-without-bound",
        "producer/credentials/key_cache.py",
        "if self._strangers >= MOST_STRANGERS:",
        "if False:",
        "producer/credentials/test_key_cache.py",
    ),
)

PLACES = (
    Sabotage(
        "places-of-a-limit-without-end",
        "limits/fleet_script.py",
        "if one.used + ahead + want.places > want.most then",
        "if false then",
        "limits/test_fleet_limits.py",
    ),
    Sabotage(
        "place-of-a-dead-worker-kept",
        "limits/fleet_script.py",
        "    redis.call('ZADD', one.places, now + asked.lease, want.member)\n    one.used",
        "    redis.call('ZADD', one.places, now + 1000 * asked.lease, want.member)\n    one.used",
        "limits/test_fleet_limits.py",
    ),
    Sabotage(
        "pause-of-a-limit-not-kept",
        "limits/fleet_script.py",
        "local wait, exact = math.max(0, one.paused - now), 0",
        "local wait, exact = 0, 0",
        "limits/test_fleet_limits.py",
    ),
    Sabotage(
        "tokens-of-a-limit-without-end",
        "limits/fleet_script.py",
        "if not want.slot and one.tokens < want.tokens then",
        "if false then",
        "limits/test_fleet_limits.py",
    ),
    Sabotage(
        "all-places-for-each-worker-without-redis",
        "worker/limiting/local_share.py",
        "share = max(1, most // self.workers)",
        "share = most",
        "worker/limiting/test_local_share.py",
    ),
    Sabotage(
        "claim-before-its-places",
        "worker/limiting/limited_claims.py",
        "if refused is not None:",
        "if False:",
        "worker/limiting/test_limited_claims.py",
    ),
    Sabotage(
        "open-turns-without-cap",
        "producer/sharing/open_turn_caps.py",
        "if known[whose] >= self.most:",
        "if False:",
        "producer/api/test_open_turn_caps.py",
    ),
    Sabotage(
        "all-places-of-a-process-for-one-tenant",
        "producer/sharing/fair_places.py",
        "if self._free <= 0 or (self._shared and own and own + 1 > TIMES_FREE * (self._free - 1)):",
        "if self._free <= 0:",
        "producer/sharing/test_fair_places.py",
    ),
    Sabotage(
        "all-webhook-posts-for-one-tenant",
        "relay/webhooks/delivery.py",
        '"per_tenant": PER_TENANT',
        '"per_tenant": CONCURRENT',
        "relay/webhooks/test_slow_receivers.py",
    ),
)

SIZES = (
    Sabotage(
        "body-read-whatever-its-length",
        "producer/http/request_body.py",
        "if claimed.isdecimal() and int(claimed) > limit_bytes:",
        "if False:",
        "producer/api/test_body_edges.py",
    ),
    Sabotage(
        "chunked-body-without-limit",
        "producer/http/request_body.py",
        "if len(data) > limit_bytes:",
        "if False:",
        "producer/api/test_body_edges.py",
    ),
    Sabotage(
        "head-of-any-size",
        "producer/http/request_head.py",
        "if len(head) > MAX_HEAD_BYTES:",
        "if False:",
        "producer/http/test_request_head.py",
    ),
    Sabotage(
        "headers-without-number",
        "producer/http/request_head.py",
        'if head.count(b"\\n") > MAX_HEADERS + 1:',
        "if False:",
        "producer/http/test_request_head.py",
    ),
    Sabotage(
        "two-lengths-of-one-request",
        "producer/http/request_head.py",
        'if lengths and (b"\\ntransfer-encoding:" in head.lower() or b"," in lengths[0].partition(b"\\n")[0]):',
        "if False:",
        "producer/http/test_request_head.py",
    ),
    Sabotage(
        "connections-without-bound",
        "producer/http/client_connections.py",
        "while len(self._open) > self._most and self._waiting:",
        "while False:",
        "producer/api/test_connection_bounds.py",
    ),
    Sabotage(
        "message-of-any-length",
        "turn/wire_format.py",
        "if len(body) > MAX_BODY_CHARACTERS:",
        "if False:",
        "turn/test_wire_format.py",
    ),
)

SABOTAGES = (*RATES, *PLACES, *SIZES)
