"""A minute of ECS and CloudWatch in a second: what a process of the product does by the minute, it does by the second here.

No setting of the product could do this, and none should: a metric has one value a minute. Called by the fork server, as
`webhook_receiver.reach_receiver` is.
"""

from functools import partial
from typing import Any, cast

from turnstile.relay.reports import attention_metric, backlog_metric, periodic_report, worker_metric
from turnstile.worker import worker_process
from turnstile.worker.lifecycle.scale_in_protection import ProtectionTerms

SWITCH = "CHAOS_QUICK_MINUTES"
SHRINK = 60.0


def switch_on(_: str) -> None:
    """For this process: the backlog is logged and protection is asked for sixty times as often."""
    for report in (backlog_metric.report_backlog, attention_metric.report_attention, worker_metric.report_workers):
        cast("dict[str, Any]", report.__kwdefaults__)["every_seconds"] = periodic_report.EVERY_SECONDS / SHRINK
    usual = ProtectionTerms()
    setattr(  # noqa: B010 - mypy knows the name as the class
        worker_process,
        "ProtectionTerms",
        partial(
            ProtectionTerms,
            look_seconds=0.1,
            protected_seconds=usual.protected_seconds / SHRINK,
            idle_seconds=usual.idle_seconds / SHRINK,
            open_seconds=usual.open_seconds / SHRINK,
        ),
    )


PROTECTED_SECONDS = ProtectionTerms().protected_seconds / SHRINK
"""After so long without another request a protection has expired."""
