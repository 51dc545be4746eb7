"""The settings, read from the environment: parsed, completed and validated as a whole, then frozen.

No other module reads a setting from the environment. Durations are in seconds, and their names say so. The rules that span
several settings (timeouts must nest) are in `Settings._nest`.
"""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from turnstile.backends.postgres.place import DEFAULT_SCHEMA, DatabasePlace
from turnstile.config import validators
from turnstile.config.database_roles import DatabaseRoles
from turnstile.config.jwt_settings import JwtSettings
from turnstile.config.limit_settings import LimitSettings, find_repeated
from turnstile.config.queue_settings import (
    FOREVER,
    ArchiveDays,
    QueueSettings,
    RetentionDays,
    Seconds,
    find_conflicts,
    find_short_retentions,
)
from turnstile.config.rate_rules import OpenTurns, RateRule, find_rate_conflicts
from turnstile.errors import UnknownQueueError

PREFIX = "TURNSTILE_"


class Settings(BaseSettings):
    """The configuration of a process. Build it with `config.config_file.load`. The docstring of a field becomes the description
    of its variable in `docs/settings.md`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True, use_attribute_docstrings=True
    )

    # `repr=False`, because URLs may contain passwords.
    database_url: str = Field("postgresql://localhost/turnstile", validation_alias="DATABASE_URL", repr=False)
    """PostgreSQL 15 or newer. In production with `?sslmode=verify-full&sslrootcert=FILE`."""
    database_roles: DatabaseRoles = {}
    """For set-ups of one machine, whose processes share one environment: JSON that maps `api`, `worker`, `relay` and `owner` (of
    `migrate` and `grant`) to `role:password` ([how](running.md#roles)). All others connect as `DATABASE_URL` says."""
    database_schema: str = DEFAULT_SCHEMA
    """Schema of the tables. `turnstile migrate` creates it. The rest of the database may belong to another application."""
    redis_url: str = Field("redis://localhost:6379/0", validation_alias="REDIS_URL", repr=False)
    """Redis 6.2 or newer, for the session locks: `redis[s]://host/0`, `redis[s]+sentinel://host,host/name/0` or
    `redis[s]+cluster://host,host`, with `?ssl_ca_certs=FILE` ([forms](runbooks/redis-and-tls.md)). TLS is always verified."""
    memory_redis_url: str | None = Field(None, repr=False)
    """Redis of the histories, working memories and events, in the same forms. Left out: `REDIS_URL`."""
    aws_region: str | None = Field(None, validation_alias="AWS_REGION")
    """Region of the queues. Left out: the region of the AWS configuration."""
    sqs_endpoint_url: str | None = Field(None, validation_alias="AWS_ENDPOINT_URL_SQS")
    """URL of an SQS other than AWS's, such as a local one."""

    ecs_agent_uri: Annotated[str | None, AfterValidator(validators.check_agent_uri)] = Field(
        None, validation_alias="ECS_AGENT_URI"
    )
    """Set by ECS. A worker with turns in flight asks this agent not to end its task."""
    ecs_metadata_uri: Annotated[str | None, AfterValidator(validators.check_agent_uri)] = Field(
        None, validation_alias="ECS_CONTAINER_METADATA_URI_V4"
    )
    """Set by ECS. The task's id is read there and added to every log line."""

    secrets: dict[str, str] | None = Field(None, repr=False)
    """For a Lambda function: JSON that maps each variable to the secret of Secrets Manager that contains its value."""

    config: Path = Path("turnstile.toml")
    """File that declares the queues and the rate limits. Without the file there is one queue, and no rate limit."""
    queues: Annotated[tuple[QueueSettings, ...], NoDecode] = ()
    """The queues as a JSON list. It wins over the file."""
    rates: Annotated[tuple[RateRule, ...], NoDecode] = ()
    """The rate limits of the API as a JSON list. It wins over the file. Neither: no rate is limited ([how](api-limits.md))."""
    limits: Annotated[tuple[LimitSettings, ...], NoDecode] = ()
    """The limits as a JSON list. They win over the file."""
    queue: str = "turns"
    """The queue that a worker serves, and that a submit without a queue goes to."""
    handler: str | None = None
    """`module:function`, found from the working directory."""
    release: Annotated[str, Field(max_length=128)] = ""
    """Name of the handler's release, such as its image tag. Workers, attempts, `dlq list --groups` and `stats` show it."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Slots of a worker process: how many handlers run at a time. A worker prefetches at most as many more turns."""
    tenant_slots: Annotated[int, Field(ge=1)] | Literal["fair", "all"] = "fair"
    """How many sessions of one tenant a worker works on at a time: a number, `all`, or `fair`. With `fair` a tenant has
    all slots but one while no other tenant has turns for this worker, otherwise at most three quarters. If the worker
    knows only one tenant, that tenant has all slots ([how](adr/0015-tenant-shares.md))."""
    redis_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{0,64}$")] = ""
    """Put before every Redis key."""

    api_host: str = "127.0.0.1"
    """Address that the API listens on. At another address than the loopback's each request needs a key."""
    api_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """Port of the API; 0 picks a free one."""
    api_connections: Annotated[int, Field(ge=16, le=100_000)] | None = None
    """Connections of clients to an API process, half of them for event streams and waits. Left out: three quarters of the files
    that it may open, at most 10,000 ([what happens beyond](adr/0020-api-limits.md))."""
    api_keys: Annotated[tuple[tuple[str, str], ...], NoDecode, Field(repr=False)] = ()
    """For set-ups of one machine: `tenant:key` pairs, separated by commas. A key has 8 characters or more, may do
    everything in its tenant, and changes with a restart. Other set-ups make keys with `turnstile key create`; both can be
    in use. Tenants appear in messages and logs: do not use a person's name. Left out, and while no key was ever made: an
    API at the loopback address needs no key, and everything is tenant `default`."""
    jwt: JwtSettings | None = None
    """Which JWTs the API accepts, as a JSON object ([its fields](#jwts)). Left out: none."""
    api_serves_strangers_without_keys: bool = False
    """Dangerous: whether an API without keys serves everybody who reaches its address, from other machines too."""
    api_cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins whose pages may call the API from a browser, such as `https://chat.example`, separated by commas. Left out: none.
    Give pages [tokens](clients.md#pages), never keys."""
    api_url: Annotated[str, AfterValidator(validators.check_api_url)] = "http://127.0.0.1:8080"
    """URL of the API that `turnstile submit` and [`turnstile.client`](clients.md#from-an-application) call."""
    api_key: Annotated[str | None, AfterValidator(validators.check_api_key), Field(repr=False)] = None
    """API key that they send."""
    api_docs: bool | None = None
    """Whether the API serves `/docs`, where a browser can try the calls, and `/openapi.json`: to everybody, without a key.
    Left out: only at the loopback address."""
    tenant_open_turns: OpenTurns = None
    """Most open turns of a tenant, scheduled ones included; a submit beyond is refused. Left out: no cap
    ([how](api-limits.md))."""
    session_open_turns: OpenTurns = None
    """The same for one session."""
    personal_session_ids: bool = False
    """Whether clients may submit to a session whose id looks like an e-mail address or a phone number (9 to 15 digits). Ids
    travel in messages and logs."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=900_000)] = 65_536
    """Largest request body, in bytes."""

    sealing_keys_file: Path | None = None
    """File with the keys that seal contents ([how](sealing.md)). Left out: contents are stored as they are."""

    lease_seconds: Seconds = 30.0
    """Duration of a claim and of the session lock. At most a queue's visibility timeout."""
    heartbeat_seconds: Seconds | None = None
    """Time between two renewals of the leases. Left out: a third of the lease."""
    resend_seconds: Seconds = 60.0
    """Shortest wait of the relay before it sends a PENDING turn's wake-up again, in case the first was lost."""
    relay: bool = True
    """Whether a worker process runs the relay, too."""
    relay_tick_seconds: Seconds = 1.0
    """Time between two rounds of the relay."""
    relay_stamp_seconds: Seconds = 15.0
    """Time after which the rows of a relay that died before it sent them are due again."""
    takeover_resend_seconds: Seconds = 5.0
    """Time between two wake-ups of a turn whose lease ran out, and between two looks at parents that wait for children."""
    receive_wait_seconds: Annotated[int, Field(ge=0, le=20)] = 20
    """Length of a long poll. It is also the longest time that an idle worker takes to stop."""
    pollers: Annotated[int, Field(ge=1, le=16)] = 1
    """Concurrent long polls. During a backlog a worker adds two, so a higher value helps only with hundreds of slots."""
    session_run_turns: Annotated[int, Field(ge=1)] = 20
    """Most turns of one session in a row while other sessions wait for the slot, or while the tenant has its share of
    the slots."""
    session_run_seconds: Seconds = 30.0
    """Longest time that a worker keeps one session, whether or not others wait."""
    grace_seconds: Annotated[float, Field(ge=0, le=7_200)] = 90.0
    """Time from SIGTERM until running turns are handed back. ECS kills at stopTimeout (120 s at most on Fargate)."""
    cancel_grace_seconds: Annotated[float, Field(ge=0, le=600)] = 5.0
    """How long a cancelled handler may take to end. After that the worker goes on without it."""
    watchdog_seconds: Seconds = 60.0
    """A worker whose event loop is stuck for this long exits with 70."""
    deaf_seconds: Seconds = 120.0
    """`/healthz` is 503 when no receive call has returned for this long, or when handlers that ignored their
    cancellation have occupied every slot for this long. Failed receive calls count only after one has succeeded."""
    health_host: str = ""
    """Address of a worker's `/healthz` and `/readyz`. Left out: all interfaces."""
    health_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port of a worker's `/healthz` and `/readyz`; 0 picks a free one."""
    retry_base_seconds: Seconds = 1.0
    """Longest wait before the second attempt. It doubles with each attempt."""
    retry_cap_seconds: Seconds = 120.0
    """Longest wait before any attempt."""
    history_messages: Annotated[int, Field(ge=1, le=1000)] = 200
    """How many of a session's last messages Redis keeps. A request for more is answered from Postgres."""
    history_ttl_seconds: Seconds = 86_400.0
    """How long Redis keeps a session's messages after its last turn."""
    events_ttl_seconds: Seconds = 600.0
    """How long a turn's events can be read after its last event. The reply stays in the table."""
    events_cap: Annotated[int, Field(ge=100, le=1_000_000)] = 5_000
    """Most events that are kept for one turn. Beyond that, its stream restarts with the text so far."""
    stream_heartbeat_seconds: Seconds = 15.0
    """Seconds without an event before the API sends a heartbeat comment on an event stream."""
    max_wait_seconds: Annotated[float, Field(ge=0, le=900)] = 60.0
    """Longest `Prefer: wait` or `?wait=`."""
    idempotency_days: Annotated[float, Field(gt=0, le=365)] = 1.0
    """Shortest time that an `Idempotency-Key` is remembered."""
    retention_days: RetentionDays = 90.0
    """**Days after its end that a turn is kept.** Then a relay deletes it, with its messages and all that belongs to it
    ([retention](retention.md)). `forever`, or 0: it is kept. A queue may have its own `retention_days`."""
    archive_days: ArchiveDays = 0.0
    """Days that a turn is in the archive after that. 0: it is deleted without the archive. A queue may have its own
    `archive_days`."""
    records_days: RetentionDays = 365.0
    """Days that the records of what operators did are kept (`turnstile audit`, `redrives`). `forever`, or 0: for good."""

    webhook_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts that webhooks may be sent to: `host`, `*.domain` or `*`, separated by commas. Set it for the API and for
    each process with a relay."""
    webhook_secrets: Annotated[tuple[str, ...], NoDecode, Field(repr=False)] = ()
    """`whsec_...`: from it, each tenant's secret is derived (`turnstile webhook-secret`). Two sign while one replaces the other:
    whoever knows it can sign for every tenant, so no receiver gets it."""

    metrics_host: str = ""
    """Address of the metrics' port. Left out: all interfaces."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port of the metrics of an API, a worker or a relay, for Prometheus ([all metrics](metrics.md)); 0 picks a free one. It
    requires no key: do not expose it. Left out: the port is not opened."""
    otlp_endpoint: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT", repr=False)
    """OpenTelemetry's variable: where telemetry is sent by OTLP over HTTP. Needs the extra `telemetry`. The exporter reads its
    other variables, such as `OTEL_EXPORTER_OTLP_HEADERS`, too."""
    otlp_metrics_endpoint: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", repr=False)
    """OpenTelemetry's variable: the same for metrics only; the whole URL."""
    otlp_metrics_exporter: str = Field("otlp", validation_alias="OTEL_METRICS_EXPORTER")
    """OpenTelemetry's variable: metrics are sent only if it contains `otlp`; `none` turns them off."""
    otlp_metrics_milliseconds: str = Field("60000", validation_alias="OTEL_METRIC_EXPORT_INTERVAL")
    """OpenTelemetry's variable: milliseconds between two exports of the metrics."""
    otlp_traces_endpoint: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", repr=False)
    """OpenTelemetry's variable: the endpoint for traces only; the whole URL."""
    traces_exporter: str = Field("", validation_alias="OTEL_TRACES_EXPORTER")
    """`otlp`: export traces even without an endpoint, to `http://localhost:4318`. `none`: no traces."""
    otel_disabled: str | None = Field(None, validation_alias="OTEL_SDK_DISABLED")
    """`true`: OpenTelemetry exports nothing."""
    xray: bool = False
    """Whether messages carry `AWSTraceHeader` in addition to `traceparent`, and a request without a `traceparent`
    continues the trace of its `X-Amzn-Trace-Id`."""

    operator: Annotated[str, Field(max_length=128), AfterValidator(validators.check_operator)] = ""
    """Who runs an operator's command, as the audit and other records name it. Left out: `user@host`, by the operating system."""
    keep_tracebacks: bool = True
    """Whether the table keeps the traceback of each failed attempt, without local variables. `turnstile status` shows it."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is logged. Operators' commands log from `warning` on, unless this is set."""
    log_format: Literal["json", "console", "auto"] = "auto"
    """`auto`: `console` on a terminal, otherwise `json`."""

    _parse_queues = field_validator("queues", mode="before")(validators.parse_queues)
    _parse_limits = field_validator("rates", "limits", mode="before")(validators.parse_json_list)
    _check_queue = field_validator("queue")(validators.check_queue)
    _check_database_url = field_validator("database_url")(validators.check_database_url)
    _check_database_schema = field_validator("database_schema")(validators.check_database_schema)
    _check_redis_urls = field_validator("redis_url", "memory_redis_url")(validators.check_redis_url)
    _parse_api_keys = field_validator("api_keys", mode="before")(validators.parse_api_keys)
    _check_api_keys = field_validator("api_keys")(validators.check_api_keys)
    _parse_lists = field_validator("webhook_hosts", "webhook_secrets", "api_cors_origins", mode="before")(
        validators.parse_list
    )
    _check_origins = field_validator("api_cors_origins")(validators.check_origins)
    _check_webhook_hosts = field_validator("webhook_hosts")(validators.check_webhook_hosts)
    _check_webhook_secrets = field_validator("webhook_secrets")(validators.check_webhook_secrets)

    @model_validator(mode="after")
    def _nest(self) -> Self:
        problems = validators.find_heartbeat_conflicts(self.heartbeat, self.watchdog_seconds, self.lease_seconds)
        problems += find_conflicts(self.queues, self.heartbeat, self.lease_seconds)
        problems += find_short_retentions(self.queues, self.retention_days, self.idempotency_days)
        problems += find_rate_conflicts(self.rates)
        problems += find_repeated(self.limits)
        if self.webhook_hosts and not self.webhook_secrets:
            problems.append(
                "webhooks need a secret to be signed; set TURNSTILE_WEBHOOK_SECRETS, or remove TURNSTILE_WEBHOOK_HOSTS"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def find_retention(self, queue: QueueSettings) -> tuple[float | None, float]:
        """The days that ended turns of the queue are in the table (None: for good), and in the archive after that."""
        days = self.retention_days if queue.retention_days is None else queue.retention_days
        archived = self.archive_days if queue.archive_days is None else queue.archive_days
        return (None if days == FOREVER else float(days)), archived

    @property
    def heartbeat(self) -> float:
        """Seconds between heartbeats. The default is a third of the lease, so that one may be missed."""
        return self.heartbeat_seconds or self.lease_seconds / 3

    @property
    def exports_metrics(self) -> bool:
        """Whether somebody reads the metrics of this process."""
        return self.metrics_port is not None or self.exports_metrics_by_otlp

    @property
    def exports_metrics_by_otlp(self) -> bool:
        """Whether the variables of OpenTelemetry ask for metrics."""
        if (self.otel_disabled or "").strip().lower() == "true":
            return False
        is_wanted = "otlp" in {name.strip() for name in self.otlp_metrics_exporter.split(",")}
        return is_wanted and bool(self.otlp_metrics_endpoint or self.otlp_endpoint)

    @property
    def otlp_metrics_seconds(self) -> float:
        """Seconds between two exports of the metrics: a minute, if the variable has no usable number."""
        text = self.otlp_metrics_milliseconds.strip()
        return int(text) / 1000 if text.isdecimal() and int(text) >= 100 else 60.0

    @property
    def exports_traces(self) -> bool:
        """Whether the variables of OpenTelemetry ask for traces."""
        if (self.otel_disabled or "").strip().lower() == "true":
            return False
        if self.traces_exporter.strip():
            return "otlp" in {name.strip() for name in self.traces_exporter.split(",")}
        return bool(self.otlp_endpoint or self.otlp_traces_endpoint)

    @property
    def redis_timeout_seconds(self) -> float:
        """Timeout of a Redis call: at most a tenth of the lock's time to live, so that a silent Redis can't use up a lease."""
        return min(1.0, self.lease_seconds / 10)

    @property
    def database(self) -> DatabasePlace:
        return DatabasePlace(self.database_url, self.database_schema)

    @property
    def memory_redis(self) -> str:
        """URL of the Redis for histories, working memories and events."""
        return self.memory_redis_url or self.redis_url

    @cached_property
    def queues_by_name(self) -> dict[str, QueueSettings]:
        return {queue.name: queue for queue in self.queues}

    @property
    def has_several_tenants(self) -> bool:
        """Whether several tenants have keys in the settings. A process without such keys learns about tenants from their turns or
        requests."""
        return len({tenant for tenant, _ in self.api_keys}) > 1

    @property
    def may_be_open(self) -> bool:
        """Whether the API serves everybody until the first key is made."""
        return self.api_host in validators.LOCAL_HOSTS or self.api_serves_strangers_without_keys

    @property
    def serves_docs(self) -> bool:
        return self.api_host in validators.LOCAL_HOSTS if self.api_docs is None else self.api_docs

    def find_queue(self, name: str) -> QueueSettings:
        """The declaration of queue `name`; raises UnknownQueueError."""
        try:
            return self.queues_by_name[name]
        except KeyError:
            raise UnknownQueueError(name, tuple(self.queues_by_name)) from None

    def select_queues(self, name: str | None) -> list[str]:
        """The names of all declared queues, or only this one. Raises UnknownQueueError."""
        return list(self.queues_by_name) if name is None else [self.find_queue(name).name]
