"""The local stack, ready for processes: started, with the declared queues and the tables."""

import os
from pathlib import Path

from turnstile.config.settings import Settings
from turnstile.dev.stack import stack
from turnstile.dev.stack.postgres import DATABASE
from turnstile.dev.stack.tables import make_tables
from turnstile.ops.queues.queues_command import create_declared
from turnstile.ops.terminal.operator_access import load_settings
from turnstile.ops.terminal.output import say


def bring_up(home: Path) -> Settings:
    """Starts the stack, and creates queues and tables. Adds the stack's variables to the environment of this process, and returns
    its settings."""
    say("PostgreSQL, Redis and SQS …")
    local = stack.up(home)
    os.environ.update(local.environment())
    settings = load_settings()
    say(f"queues ({', '.join(queue.name for queue in settings.queues)}) …")
    create_declared(settings)
    say("migrations …")
    make_tables(local.postgres, DATABASE, settings.database_schema)
    return settings
