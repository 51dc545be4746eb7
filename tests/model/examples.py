"""How many random examples a machine gets.

`TURNSTILE_MODEL_EXAMPLES=5000` runs that many instead of the same few each time. A failure prints the calls as a program,
and the blob that `@reproduce_failure` takes.
"""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

EXAMPLES = int(os.environ.get("TURNSTILE_MODEL_EXAMPLES", "0"))
LONG_STEPS = 60


def run_examples(machine: type[RuleBasedStateMachine], *, examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=EXAMPLES or examples,
        stateful_step_count=LONG_STEPS if EXAMPLES else steps,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
