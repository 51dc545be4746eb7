"""The one place that reads the environment: parsed, completed and refused whole, then frozen.

Nothing else in the product looks at the environment for a setting. Durations are seconds, and their names say
so. The rules that span several settings (timeouts must nest) stand in `Settings._nest`.
"""

import json
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from turnstile.config.checks import (
    check_agent_uri,
    check_api_key,
    check_api_keys,
    check_database_url,
    check_redis_url,
    check_webhook_hosts,
    check_webhook_secrets,
    parse_api_keys,
    parse_list,
)
from turnstile.errors import SettingsError, UnknownQueueError
from turnstile.turn.limits import MAX_ATTEMPTS, MAX_SECONDS
from turnstile.turn.message import ID_PATTERN, ID_RULE, MAX_VISIBILITY_SECONDS, is_valid_id

Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
PREFIX = "TURNSTILE_"
LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class QueueSettings(BaseModel):
    """A queue as it is declared in `turnstile.toml` or TURNSTILE_QUEUES."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=rf"^{ID_PATTERN}$")]
    sqs: str = ""
    """SQS queue name or URL; the queue's own name when left out."""
    dlq: str = ""
    """Name or URL of its dead-letter queue; `<name>-dlq` (`.fifo` kept) when left out."""
    handler: str | None = None
    """`module:function`, for workers that are not told otherwise."""
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 5
    max_crashes: Annotated[int, Field(ge=1, le=100)] = 3
    on_failure: Literal["dead_letter", "halt"] = "dead_letter"
    """Whether a FAILED turn is dead-lettered and passed over, or halts its session until a person decides (G9)."""
    timeout_seconds: Seconds = 300.0
    visibility_seconds: Annotated[float, Field(ge=1, le=MAX_VISIBILITY_SECONDS)] = 60.0
    expires_in_seconds: Seconds = 900.0
    """Retries, snoozes and takeovers end here; a first attempt is made however late it comes."""

    @property
    def halts(self) -> bool:
        """Whether a FAILED turn halts its session."""
        return self.on_failure == "halt"

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and isinstance(fields.get("name"), str):
            sqs = fields.get("sqs") or fields["name"]
            stem = sqs.removesuffix(".fifo")
            fields = {"dlq": f"{stem}-dlq{sqs[len(stem) :]}", **fields, "sqs": sqs}
        return fields


class Settings(BaseSettings):
    """Everything a process needs to know from outside. Build it with `load`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", populate_by_name=True)

    # Not in the representation: they may hold passwords.
    database_url: str = Field("postgresql://localhost/turnstile", validation_alias="DATABASE_URL", repr=False)
    redis_url: str = Field("redis://localhost:6379/0", validation_alias="REDIS_URL", repr=False)
    memory_redis_url: str | None = Field(None, repr=False)
    """Where histories, working memories and events live, if that is not the Redis of the locks."""
    aws_region: str | None = Field(None, validation_alias="AWS_REGION")
    sqs_endpoint_url: str | None = Field(None, validation_alias="AWS_ENDPOINT_URL_SQS")
    sqs_transport: Literal["boto3", "lean"] = "boto3"
    """How calls of SQS are carried (`backends.sqs.transport`)."""

    # Set by ECS itself in every task; nobody else sets them.
    ecs_agent_uri: Annotated[str | None, AfterValidator(check_agent_uri)] = Field(
        None, validation_alias="ECS_AGENT_URI"
    )
    ecs_metadata_uri: Annotated[str | None, AfterValidator(check_agent_uri)] = Field(
        None, validation_alias="ECS_CONTAINER_METADATA_URI_V4"
    )

    secrets: dict[str, str] | None = Field(None, repr=False)
    """Which settings a Lambda function reads from Secrets Manager, as JSON: variable to id (`config.secrets_manager`)."""

    config: Path = Path("turnstile.toml")
    queues: Annotated[tuple[QueueSettings, ...], NoDecode] = ()
    """JSON list in TURNSTILE_QUEUES, else `[[queues]]` of the config file, else the single queue `turns`."""
    queue: str = "turns"
    handler: str | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    tenant_slots: Annotated[int, Field(ge=1)] | Literal["fair", "all"] = "fair"
    """How many of the slots one tenant may have at a time (G20). "fair": as in `worker.slots.tenant_slots`."""
    memory_connections: Annotated[int, Field(ge=1, le=1000)] = 20
    """To the memory's Redis, for the working memory of one process (H9)."""
    redis_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{0,64}$")] = ""

    api_host: str = "127.0.0.1"
    api_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    api_connections: Annotated[int, Field(ge=16, le=100_000)] | None = None
    api_keys: Annotated[tuple[tuple[str, str], ...], NoDecode, Field(repr=False)] = ()
    """`tenant:key` pairs, separated by commas. None: tenant `default`, on the loopback address only."""
    api_url: str = "http://127.0.0.1:8080"
    api_key: Annotated[str | None, Field(repr=False)] = None
    max_body_bytes: Annotated[int, Field(ge=1024, le=900_000)] = 65_536

    lease_seconds: Seconds = 30.0
    """Of the row and of the session lock: one number, because each makes sense only with the other."""
    heartbeat_seconds: Seconds | None = None
    net_seconds: Seconds = 60.0
    """How long a PENDING row waits for its message before the relay sends another."""
    relay: bool = True
    relay_tick_seconds: Seconds = 1.0
    relay_stamp_seconds: Seconds = 15.0
    takeover_resend_seconds: Seconds = 5.0
    receive_wait_seconds: Annotated[int, Field(ge=0, le=20)] = 20
    pollers: Annotated[int, Field(ge=1, le=16)] = 1
    """Long polls at a time. One brings ten messages; more only pay with hundreds of slots."""
    hold_turns: Annotated[int, Field(ge=1)] = 20
    hold_seconds: Seconds = 30.0
    grace_seconds: Annotated[float, Field(ge=0, le=7_200)] = 90.0
    """From the first SIGTERM to handing turns back. ECS kills at stopTimeout (120 s at most on Fargate)."""
    cancel_grace_seconds: Annotated[float, Field(ge=0, le=600)] = 5.0
    """How long a cancelled handler may take to come to its end before it is left behind."""
    watchdog_seconds: Seconds = 60.0
    """The process exits when its event loop has been stuck this long."""
    deaf_seconds: Seconds = 120.0
    """Not live any more when no poll has come back for this long: see `worker.consumer.Consumer.deaf_for`."""
    health_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Where a worker answers /healthz and /readyz; none by default, 0 picks a free port."""
    retry_base_seconds: Seconds = 1.0
    retry_cap_seconds: Seconds = 120.0
    history_messages: Annotated[int, Field(ge=1, le=1000)] = 200
    """How many of a session's last messages are kept in Redis. Whoever asks for more is answered from Postgres."""
    history_ttl_seconds: Seconds = 86_400.0
    """How long they stay there after the session's last turn. When they are gone, the next reader pays one query."""
    events_ttl_seconds: Seconds = 600.0
    """How long a turn's events can be read again after the last of them; the answer stays in the table."""
    events_cap: Annotated[int, Field(ge=100, le=1_000_000)] = 5_000
    """Events of one turn that are kept; when there are more, its stream begins anew with the text so far."""
    stream_heartbeat_seconds: Seconds = 15.0
    """After so much silence a stream of events says that it is alive."""
    max_wait_seconds: Annotated[float, Field(ge=0, le=900)] = 60.0
    """At most so long does a request wait for its turn to end."""
    idempotency_days: Annotated[float, Field(gt=0, le=365)] = 1.0

    webhook_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Where completion webhooks may go: `host`, `*.domain` or `*`, perhaps with `:port`. None: there are none."""
    webhook_secrets: Annotated[tuple[str, ...], NoDecode, Field(repr=False)] = ()
    """`whsec_<base64>`, what they are signed with; two while one takes the place of the other."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console", "auto"] = "auto"

    @field_validator("queues", mode="before")
    @classmethod
    def _parse_queues(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = json.loads(value) if value.strip() else []
        # The default, an empty tuple, leaves it to the file.
        if value == []:
            raise ValueError("is empty: leave it out, or declare at least one queue")
        return value

    @field_validator("queue")
    @classmethod
    def _check_queue(cls, name: str) -> str:
        if not is_valid_id(name):
            raise ValueError("is empty" if not name else f"must be {ID_RULE}")
        return name

    _check_database_url = field_validator("database_url")(check_database_url)
    _check_redis_urls = field_validator("redis_url", "memory_redis_url")(check_redis_url)
    _check_api_key = field_validator("api_key")(check_api_key)
    _parse_api_keys = field_validator("api_keys", mode="before")(parse_api_keys)
    _check_api_keys = field_validator("api_keys")(check_api_keys)
    _parse_lists = field_validator("webhook_hosts", "webhook_secrets", mode="before")(parse_list)
    _check_webhook_hosts = field_validator("webhook_hosts")(check_webhook_hosts)
    _check_webhook_secrets = field_validator("webhook_secrets")(check_webhook_secrets)

    @model_validator(mode="after")
    def _nest(self) -> Self:
        problems = []
        if not self.heartbeat < self.lease_seconds:
            problems.append(
                f"heartbeat ({self.heartbeat:g} s) must be shorter than the lease ({self.lease_seconds:g} s)"
            )
        if not self.watchdog_seconds > 2 * self.heartbeat:
            problems.append(f"watchdog ({self.watchdog_seconds:g} s) must be longer than two heartbeats")
        for queue in self.queues:
            if self.heartbeat > queue.visibility_seconds / 2:
                problems.append(
                    f"heartbeat ({self.heartbeat:g} s) must be at most half the visibility timeout of queue "
                    f"{queue.name!r} ({queue.visibility_seconds:g} s)"
                )
            if self.lease_seconds > queue.visibility_seconds:
                problems.append(
                    f"lease ({self.lease_seconds:g} s) must not be longer than the visibility timeout of queue "
                    f"{queue.name!r} ({queue.visibility_seconds:g} s)"
                )
        if len({queue.name for queue in self.queues}) != len(self.queues):
            problems.append("each queue may be declared only once")
        if len({queue.sqs for queue in self.queues} | {queue.dlq for queue in self.queues}) != 2 * len(self.queues):
            problems.append("each queue needs an SQS queue and a dead-letter queue of its own")
        if not self.api_keys and self.api_host not in LOCAL_HOSTS:
            problems.append("without api_keys the API serves the loopback address only; set TURNSTILE_API_KEYS")
        if self.webhook_hosts and not self.webhook_secrets:
            problems.append("webhooks are signed; set TURNSTILE_WEBHOOK_SECRETS, or no TURNSTILE_WEBHOOK_HOSTS")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def heartbeat(self) -> float:
        """Seconds between heartbeats: a third of the lease, so that one may be missed."""
        return self.heartbeat_seconds or self.lease_seconds / 3

    @property
    def redis_timeout_seconds(self) -> float:
        """At most a tenth of the lock's time to live, so that a silent Redis can't eat a lease."""
        return min(1.0, self.lease_seconds / 10)

    @property
    def memory_redis(self) -> str:
        """URL of the Redis that histories, working memories and events live in."""
        return self.memory_redis_url or self.redis_url

    @cached_property
    def queues_by_name(self) -> dict[str, QueueSettings]:
        """The declared queues."""
        return {queue.name: queue for queue in self.queues}

    def find_queue(self, name: str) -> QueueSettings:
        """The declaration of queue `name`; raises UnknownQueueError."""
        try:
            return self.queues_by_name[name]
        except KeyError:
            raise UnknownQueueError(name, tuple(self.queues_by_name)) from None


def load(**overrides: Any) -> Settings:
    """The settings of this process: `overrides` (from the command line), then the environment, then the config file.

    Raises SettingsError with every offending setting in one message.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = Settings(**given)
        if settings.queues:
            return settings
        # Validated again whole: the rules that span settings must see the queues.
        named = "config" in settings.model_fields_set
        return Settings(**given, queues=_declared(settings.config, settings.queue, named=named))
    except ValidationError as error:
        raise SettingsError("; ".join(map(_explain, error.errors()))) from None
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _declared(config: Path, only: str, *, named: bool) -> tuple[dict[str, Any], ...]:
    try:
        document = tomllib.loads(config.read_text("utf-8"))
    except FileNotFoundError:
        if named:
            raise SettingsError(f"TURNSTILE_CONFIG: there is no file {config}") from None
        # Nothing declared: one queue, whatever it is called, needs no file.
        return ({"name": only},)
    except OSError as error:
        raise SettingsError(f"{config}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{config}: is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{config}: {error}") from None
    if unknown := sorted(document.keys() - {"queues"}):
        raise SettingsError(f"{config}: unknown: {', '.join(unknown)}; only [[queues]] may stand there")
    queues = document.get("queues")
    if not isinstance(queues, list) or not queues:
        raise SettingsError(f"{config}: declares no [[queues]]")
    return tuple(queues)


def _explain(error: Any) -> str:
    name = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    if not name:
        return message
    variable = name if name.isupper() else f"{PREFIX}{name.upper()}"
    return f"{variable}: {message}"
