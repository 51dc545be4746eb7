"""Processes that do not start because no AWS credentials are configured."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.support.probes import until
from turnstile.ops.terminal.exit_codes import ExitCode

NONE_AT_ALL = {
    "AWS_ACCESS_KEY_ID": "",
    "AWS_SECRET_ACCESS_KEY": "",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.mark.parametrize("command", ["worker", "relay"])
async def test_a_process_that_could_call_nothing_ends_with_one_line(start_worker: StartWorker, command: str) -> None:
    process = start_worker(command, **NONE_AT_ALL)

    await until(lambda: process.exit_code is not None)
    assert process.exit_code == ExitCode.USAGE
    [line] = process.log_path.read_text().splitlines()
    assert "AWS credentials: none are configured: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in line
