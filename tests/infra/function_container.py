"""A container of the Lambda function as a process of its own, so that it has the function's role and no other: an order a line
in (`event`, `seconds`), the function's answer a line out.
"""

import json
import sys
from typing import Any

from turnstile import Context, Turn, handler
from turnstile.worker.aws_lambda.lambda_handler import handle


@handler()
async def answer(turn: Turn, ctx: Context) -> Any:
    """Has a child on each queue if the input asks for it."""
    if turn.input == "parent":
        await ctx.submit("child")
        await ctx.submit("child", queue="strict")
    return turn.input


class Invoked:
    """What Lambda passes to the function about an invocation."""

    aws_request_id = "request-1"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        """As if it had begun just now."""
        return int(self._seconds * 1000)


def main() -> None:
    """Runs until there is no further order; then nobody thaws the container again."""
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(handle(order["event"], Invoked(order["seconds"]))), flush=True)


if __name__ == "__main__":
    main()
