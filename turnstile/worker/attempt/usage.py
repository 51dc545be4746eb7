"""What handlers report about their calls to models: tokens and cost, as metrics and as one log line per report."""

from dataclasses import dataclass
from typing import Any

from turnstile.telemetry.metrics import HANDLER_COST, HANDLER_TOKENS, MODELS

MOST = 2**53
"""The greatest number that is accepted."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One report. `model` is a label: bounded."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_dollars: float

    @classmethod
    def of(cls, model: Any, input_tokens: Any, output_tokens: Any, cost_dollars: Any) -> "Usage":
        """Takes any values: a provider's response may have None, and a report must not fail a turn that has its reply."""
        name = MODELS.bound(model) if isinstance(model, str) else "unknown"
        return cls(name, int(_positive(input_tokens)), int(_positive(output_tokens)), _positive(cost_dollars))


def report_usage(log: Any, queue: str, usage: Usage) -> None:
    """`log` is the logger that is bound to the turn."""
    log.info(
        "handler.usage",
        model=usage.model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_dollars=usage.cost_dollars,
    )
    HANDLER_TOKENS.add(usage.input_tokens, queue, usage.model, "input")
    HANDLER_TOKENS.add(usage.output_tokens, queue, usage.model, "output")
    if usage.cost_dollars:
        HANDLER_COST.add(usage.cost_dollars, queue, usage.model)


def _positive(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0 < number < MOST else 0.0
