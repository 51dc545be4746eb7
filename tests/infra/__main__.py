"""`make infra-check`: the steps in their order, one line each. Exit code 1 if one finds a fault, 2 if something is missing.

python -m tests.infra                    all of them
python -m tests.infra fmt validate       some of them
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.infra import call_recorder
from tests.infra.emulator import Emulator, emulate
from tests.infra.terraform import InfraError, MissingError, Terraform
from tests.support.given_queues import VARIABLE, GivenQueues

ROOT = Path(__file__).parents[2]

LEFT_OUT = {
    "tests/e2e/test_refused_certificates.py": "its processes end before they have called SQS",
    "tests/e2e/test_missing_credentials.py": "so do they, without any credentials",
    "tests/e2e/test_outages.py::test_turns_wait_while_sqs_is_away": "it stops the embedded stack's SQS, unused here",
}
"""End-to-end tests that are not run on the queues that Terraform made, with the reason. All others are, a new file too."""

ROLES = {
    "function": ("module.function.aws_iam_role_policy.function", "check-function-lambda"),
    "execution": ("module.service.aws_iam_role_policy.execution", "check-service-execution"),
}
"""What of examples/roles is applied, and the role's name in IAM."""

CALLS = "calls.jsonl"

CHECKS = (
    "check_queues", "check_roles", "check_function", "check_log_patterns", "check_lock_events", "check_alarms",
    "check_alarm_formulas", "check_platform_alarms", "check_alarm_chain",
)  # fmt: skip


def fmt(terraform: Terraform) -> None:
    """The files are in Terraform's form."""
    terraform.run("fmt", "-check", "-recursive", "-diff")


def validate(terraform: Terraform) -> None:
    """Each module holds by itself."""
    for _, folder in terraform.init_modules():
        terraform.run("validate", folder=folder)


def test(terraform: Terraform) -> None:
    """`terraform test`: policies and what else the modules promise, with a mocked provider."""
    for _, folder in terraform.init_modules():
        if any(folder.glob("tests/*.tftest.hcl")):
            terraform.run("test", folder=folder)


def plan(terraform: Terraform) -> None:
    """The examples can be planned, with credentials of nobody, and what they put together agrees."""
    for name in ("complete", "function"):
        folder = terraform.folder(f"examples/{name}")
        terraform.init(folder)
        terraform.run("plan", "-var-file=imaginary.tfvars", "-lock=false", folder=folder)
        if any(folder.glob("tests/*.tftest.hcl")):
            terraform.run("test", "-var-file=imaginary.tfvars", folder=folder)


def apply(terraform: Terraform) -> None:
    """Queues, roles and alarms are made in an emulator, and the product works on them under their roles."""
    with emulate(terraform.home / "emulator") as emulator:
        _test(describe(emulator, make(terraform, emulator), terraform.home), terraform.home)


def make(terraform: Terraform, emulator: Emulator) -> dict[str, Any]:
    """The outputs of what Terraform makes in the emulator, and what is in no output: the alarms, and roles without a process."""
    folder = terraform.folder("examples/emulator")
    terraform.init(folder)
    terraform.run("apply", "-auto-approve", "-parallelism=30", folder=folder, **emulator.root)
    outputs = terraform.outputs(folder)
    outputs["alarms"] = terraform.state(folder)["aws_cloudwatch_metric_alarm"]

    folder = terraform.folder("examples/roles")
    terraform.init(folder)
    targets = [f"-target={policy}" for policy, _ in ROLES.values()]
    access = json.dumps(outputs["access"])
    terraform.run("apply", "-auto-approve", *targets, folder=folder, TF_VAR_access=access, **emulator.root)
    state = terraform.state(folder)
    arns = {one["name"]: one["arn"] for one in state["aws_iam_role"]}
    policies = {one["role"]: one["policy"] for one in state["aws_iam_role_policy"]}
    outputs["roles"] |= {role: arns[name] for role, (_, name) in ROLES.items()}
    outputs["policies"] |= {role: policies[name] for role, (_, name) in ROLES.items()}
    return outputs


def describe(emulator: Emulator, outputs: dict[str, Any], home: Path) -> Path:
    """The file from which the tests read what there is and who they are."""
    recording = call_recorder.switched_on(home / CALLS)
    for role, arn in outputs["roles"].items():
        emulator.admit_batches(arn, outputs["policies"][role])
    given = GivenQueues(
        standard=outputs["declarations"]["turns"],
        fifo=outputs["declarations"]["strict"],
        tests=emulator.root,
        processes={role: emulator.assume(arn) | recording for role, arn in outputs["roles"].items()},
        terraform=outputs,
    )
    file = home / "given.json"
    file.write_text(json.dumps({name: getattr(given, name) for name in GivenQueues.__slots__}))
    return file


def _test(given: Path, home: Path) -> None:
    for group in (
        [f"tests/infra/{name}.py" for name in CHECKS],
        ["tests/e2e", *(f"{'--deselect' if '::' in name else '--ignore'}={name}" for name in LEFT_OUT)],
        # Last, because it reads what the others recorded.
        ["tests/infra/check_calls.py"],
    ):
        _pytest(group, {VARIABLE: str(given), call_recorder.VARIABLE: str(home / CALLS)})


def _pytest(files: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        raise InfraError(f"tests failed: {' '.join(files)}")


STEPS: dict[str, Callable[[Terraform], None]] = {
    "fmt": fmt, "validate": validate, "test": test, "plan": plan, "apply": apply,
}  # fmt: skip


def main() -> int:
    """Runs the steps; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.infra", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="step", help=", ".join(STEPS))
    wanted = parser.parse_args().steps or list(STEPS)
    if unknown := [name for name in wanted if name not in STEPS]:
        parser.error(f"unknown: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="turnstile-infra-") as home:
        try:
            terraform = Terraform(Path(home))
            for name in wanted:
                began = time.monotonic()
                STEPS[name](terraform)
                print(f"infra-check: {name} is well ({time.monotonic() - began:.0f} s)", flush=True)
        except InfraError as error:
            print(f"infra-check: {error}", file=sys.stderr)
            return 2 if isinstance(error, MissingError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
