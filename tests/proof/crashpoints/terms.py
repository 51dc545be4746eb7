"""The settings of a cell: the product's durations made small, so that every time-out passes within seconds."""

from typing import Any

TEMPLATE = "template_crashpoints"
TENANT = "t"
LEASE_SECONDS = 1.2
RESEND_SECONDS = 2.0
VISIBILITY_SECONDS = 2
MAX_CRASHES = 5
MALFORMED = "this is none of our messages"

SHORT: dict[str, Any] = {
    "handler": "tests.proof.crashpoints.handlers:act",
    "concurrency": 4,
    "lease_seconds": LEASE_SECONDS,
    "relay_tick_seconds": 0.15,
    "relay_stamp_seconds": 1.0,
    "takeover_resend_seconds": 0.8,
    "resend_seconds": RESEND_SECONDS,
    "receive_wait_seconds": 1,
    "grace_seconds": 0.5,
    "cancel_grace_seconds": 0.3,
    "retry_base_seconds": 0.05,
    "retry_cap_seconds": 0.2,
    "log_level": "info",
    "log_format": "json",
}


def declare_queues(stem: str, *, fifo: bool) -> list[dict[str, Any]]:
    """A cell's queue, and a second one of which few stories know."""
    names = [f"{stem}{kind}{'.fifo' if fifo else ''}" for kind in ("", "-other")]
    return [
        {
            "name": name.removesuffix(".fifo"),
            "sqs": name,
            "visibility_seconds": VISIBILITY_SECONDS,
            "timeout_seconds": 1.5,
            "max_attempts": 5,
            "max_crashes": MAX_CRASHES,
        }
        for name in names
    ]
