"""Names of attributes: OpenTelemetry's conventions for messaging, and our own."""


def about_queue(queue: str, operation_type: str, operation_name: str | None = None) -> dict[str, str]:
    """`operation_type`: create, send, receive or process. `operation_name`: the same, if it has no name of its own."""
    return {
        "messaging.system": "aws_sqs",
        "messaging.destination.name": queue,
        "messaging.operation.type": operation_type,
        "messaging.operation.name": operation_name or operation_type,
        "turnstile.queue": queue,
    }


def about_turn(turn_id: object, session_id: str) -> dict[str, str]:
    """The turn's ids."""
    return {"turnstile.turn_id": str(turn_id), "turnstile.session_id": session_id}
