"""All metrics of Turnstile. `docs/metrics.md` is generated from here.

Names and units are those of Prometheus: base units, `_total` for what only rises. No label has a tenant, a session or a
turn, because their number has no bound. Several relays report the same facts of the tables: read these gauges by
maximum, never by sum.
"""

from turnstile.telemetry.bounded_values import BoundedValues
from turnstile.telemetry.instruments import Counter, Gauge, Histogram, Process

W, R, A, ALL = Process.WORKER, Process.RELAY, Process.API, Process.ALL
M = Process.MEMORY_WATCHERS

MODELS = BoundedValues(50)
ERROR_CLASSES = BoundedValues(50)

# Prometheus interpolates within a bucket, so they are narrow where people look: around the wait for a wake-up that was lost (a
# minute), up to the wait that pages (five minutes), and at the usual lengths of an attempt.
WAITS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 75, 90, 120, 180, 300, 600, 1800)
RUNS = (0.01, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 45, 60, 120, 300, 900)
CALLS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
HOLDS = (0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 120, 600)
REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)

# --- worker: turns

TURN_WAITING = Histogram(
    W, "turnstile_turn_waiting_seconds",
    "How long a turn waited until it first began, from its submit, its schedule or its redrive.",
    ["queue"], unit="seconds", buckets=WAITS,
)  # fmt: skip
ATTEMPT_RUNNING = Histogram(
    W, "turnstile_attempt_running_seconds",
    "How long an attempt took, from its claim to its settle. Lost attempts are not counted.",
    ["queue", "outcome"], unit="seconds", buckets=RUNS,
)  # fmt: skip
TURNS_ENDED = Counter(
    W, "turnstile_turns_ended_total",
    "Turns that a worker ended. `error_class` is empty unless FAILED; after 50 classes per process it is `other`.",
    ["queue", "status", "error_class"], limits={"error_class": ERROR_CLASSES},
)  # fmt: skip
TAKEOVERS = Counter(
    W, "turnstile_takeovers_total", "Claims of a turn whose worker was lost.", ["queue"],
)  # fmt: skip
SUPERSEDED_SETTLES = Counter(
    W, "turnstile_superseded_settles_total", "Settles that were refused: another claim has the turn.", ["queue"],
)  # fmt: skip
LEASES_LOST = Counter(
    W, "turnstile_leases_lost_total", "Attempts that were stopped before their settle: another claim has the turn.",
    ["queue"],
)  # fmt: skip
HANDLER_TOKENS = Counter(
    W, "turnstile_handler_tokens_total",
    "Tokens that handlers reported; `kind` is `input` or `output`. After 50 models per process `model` is `other`.",
    ["queue", "model", "kind"], limits={"model": MODELS},
)  # fmt: skip
HANDLER_COST = Counter(
    W, "turnstile_handler_cost_dollars_total", "Cost that handlers reported.", ["queue", "model"], unit="dollars",
    limits={"model": MODELS},
)  # fmt: skip

# --- worker: session locks

LOCK_ACQUISITIONS = Counter(
    W, "turnstile_session_lock_acquisitions_total",
    "Attempts to lock a session: `locked`, `busy`, `unguarded` if Redis did not respond, or `foreign` if no worker set the lock.",
    ["queue", "result"],
)  # fmt: skip
LOCK_WAIT = Histogram(
    W, "turnstile_session_lock_wait_seconds", "How long an attempt to lock a session took, if it succeeded.", ["queue"],
    unit="seconds", buckets=CALLS,
)  # fmt: skip
LOCK_HOLD = Histogram(
    W, "turnstile_session_lock_hold_seconds", "How long a session run kept its lock.", ["queue"], unit="seconds",
    buckets=HOLDS,
)  # fmt: skip

LOCK_LONGEST = Gauge(
    W, "turnstile_session_lock_longest_seconds",
    "How long the process has held the oldest of its current session locks; 0 if it holds none.",
    ["queue"], unit="seconds",
)  # fmt: skip

# --- worker: its own state

HEARTBEAT_LATENESS = Gauge(
    W, "turnstile_heartbeat_lateness_seconds",
    "How overdue the renewal of the leases is; 0 while on time. Leases run out at a lease minus a heartbeat.",
    ["queue"], unit="seconds",
)  # fmt: skip
SLOTS = Gauge(W, "turnstile_slots", "Slots of the process.", ["queue"])
SLOTS_BUSY = Gauge(W, "turnstile_slots_busy", "Slots whose handler runs, or ignored its cancellation.", ["queue"])
ATTEMPT_LONGEST = Gauge(
    W, "turnstile_attempt_longest_seconds",
    "How long the oldest of the running attempts has been running; 0 if none runs.", ["queue"],
    unit="seconds",
)  # fmt: skip
EVENT_LOOP_BLOCKED = Counter(
    W, "turnstile_event_loop_blocked_seconds_total",
    "Time that the event loop was blocked, in blocks of a second or more; counted while they last.", ["queue"],
    unit="seconds",
)  # fmt: skip

# --- worker: messages

MESSAGES_RECEIVED = Counter(
    W, "turnstile_messages_received_total", "Messages that were received.", ["queue"],
)  # fmt: skip
MESSAGES_MALFORMED = Counter(
    W, "turnstile_messages_malformed_total", "Messages that could not be read and were sent to the DLQ.", ["queue"],
)  # fmt: skip
MESSAGES_PHANTOM = Counter(
    W, "turnstile_messages_phantom_total", "Messages of a session that has no row.", ["queue"],
)  # fmt: skip

# --- relay: sends

RELAY_SENT = Counter(
    R, "turnstile_relay_sent_total", "Messages that the relay sent: `wake_up` or `dead_letter`.", ["queue", "kind"],
)  # fmt: skip
QUEUE_PAUSED = Gauge(R, "turnstile_queue_paused", "1 while operators have paused the queue, otherwise 0.", ["queue"])
RELAY_LAG = Histogram(
    R, "turnstile_relay_lag_seconds", "How long after its `send_at` a row's message was sent.", ["queue"],
    unit="seconds", buckets=WAITS,
)  # fmt: skip
RELAY_STEPS_FAILED = Counter(
    R, "turnstile_relay_steps_failed_total",
    "Steps, or rows of a step, that Postgres refused. The ERROR line `relay.step_failed` says which.",
)  # fmt: skip
WORKERS_LOST = Counter(
    R, "turnstile_workers_lost_total",
    "Workers that died or vanished without a shutdown, by the relay that found each first. The line `worker.lost` names it.",
    ["queue"],
)  # fmt: skip
TURNS_DELETED = Counter(
    R, "turnstile_turns_deleted_total",
    "Ended turns that a relay deleted because they were old enough, or moved to the archive (`to`: `nowhere` or `archive`).",
    ["queue", "status", "to"],
)  # fmt: skip
WEBHOOKS = Counter(
    R, "turnstile_webhooks_total", "Tries to deliver a webhook: `delivered`, `retried` or `given_up`.", ["result"],
)  # fmt: skip

# --- relay: what the tables and the queues say, once a minute

BACKLOG = Gauge(
    R, "turnstile_backlog_turns",
    "Turns that are `due` and unclaimed, up to 10,000; the heads of sessions among them (`ready`); and `running` turns.",
    ["queue", "state"],
)  # fmt: skip
BACKLOG_OLDEST = Gauge(
    R, "turnstile_backlog_oldest_seconds", "How long the oldest `ready` turn has been due.", ["queue"], unit="seconds",
)  # fmt: skip
STANDSTILL = Gauge(
    R, "turnstile_standstill_seconds",
    "How long the first turn of the queue has waited while no turn ends; 0 while turns end or none waits for long.",
    ["queue"], unit="seconds",
)  # fmt: skip
WORKERS = Gauge(
    R, "turnstile_workers", "Registered workers by `state`, as `turnstile workers` shows it.", ["queue", "state"],
)  # fmt: skip
FAILED_TURNS = Gauge(
    R, "turnstile_failed_turns",
    "Turns that finally failed in the last five minutes, are still FAILED and do not halt their session.", ["queue"],
)  # fmt: skip
SESSIONS_HALTED = Gauge(R, "turnstile_sessions_halted", "Sessions that a FAILED turn halts.", ["queue"])
SESSIONS_HALTED_SECONDS = Gauge(
    R, "turnstile_sessions_halted_seconds", "How long the session halted first has been halted.", ["queue"],
    unit="seconds",
)  # fmt: skip
DEAD_LETTERS_EXPECTED = Gauge(
    R, "turnstile_dead_letters_expected",
    "Most messages on the DLQ that FAILED turns can explain, and for ten minutes those of turns put back or dropped; NaN "
    "if there are too many to count.", ["queue"],
)  # fmt: skip
DLQ_MESSAGES = Gauge(
    R, "turnstile_dlq_messages", "Approximate number of messages on the DLQ, as SQS counts them.", ["queue"]
)
DLQ_UNTOUCHED = Gauge(
    R, "turnstile_dlq_untouched_seconds", "Age of the oldest dead letter whose turn is still FAILED.",
    ["queue"], unit="seconds",
)  # fmt: skip
WEBHOOKS_OWED = Gauge(
    R, "turnstile_webhooks_owed", "Webhooks that are due and not being posted, counted up to 10,000.",
)  # fmt: skip

# --- all: the servers behind

BACKEND_UP = Gauge(
    ALL, "turnstile_backend_up",
    "1 if the last call to the server got a response, otherwise 0. In a process that makes no calls "
    "the value is old: alarm on continuing failures.", ["backend"],
)  # fmt: skip
BACKEND_FAILURES = Counter(
    ALL, "turnstile_backend_failures_total", "Calls without a response, and calls whose credentials SQS refused.",
    ["backend"],
)  # fmt: skip

# --- worker and relay: the memory's Redis, every ten seconds

REDIS_MEMORY_RATIO = Gauge(
    M, "turnstile_redis_memory_ratio",
    "Used memory of the Redis, divided by its `maxmemory`. Not shown without a limit.", ["role"], unit="ratio",
)  # fmt: skip
REDIS_RESPONSE = Gauge(
    M, "turnstile_redis_response_seconds", "How long the Redis took to respond to the last INFO.", ["role"],
    unit="seconds",
)  # fmt: skip
REDIS_INFO = Gauge(
    M, "turnstile_redis_info",
    "Values of INFO about memory, clients, commands, hits, evictions, network and uptime, under Redis's own names.",
    ["role", "fact"],
)  # fmt: skip
MEMORY_WRITES_CUT = Counter(
    W, "turnstile_memory_writes_cut_total",
    "Writes of low-priority items that were kept for the shortest time (`high`) or not at all (`critical`), to save memory.",
    ["level"],
)  # fmt: skip

# --- API

TURNS_SUBMITTED = Counter(
    A, "turnstile_turns_submitted_total",
    "Submits: `accepted`, `repeated` with the same key, `refused` by a rule or a limit, or `failed` with a 503.",
    ["queue", "result"],
)  # fmt: skip
HTTP_REQUESTS = Counter(
    A, "turnstile_http_requests_total",
    "Responses. `route` is the path's template, or `none`; `code` is 0 if the client disconnected before the response.",
    ["route", "method", "code"],
)  # fmt: skip
HTTP_SECONDS = Histogram(
    A, "turnstile_http_request_seconds", "How long a request took, to the end of its response.", ["route"],
    unit="seconds", buckets=REQUESTS,
)  # fmt: skip
RATE_LIMITED = Counter(
    A, "turnstile_rate_limited_total", "Requests that a rate limit refused (429). `rule` is its name in the settings.", ["rule"]
)  # fmt: skip
STREAMS_OPEN = Gauge(A, "turnstile_streams_open", "Event streams that clients follow now.")
