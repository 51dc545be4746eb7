"""The planted bugs fit the code that they alter: each is planted in a process of its own, as in its run."""

import os
import subprocess
import sys

from tests.conftest import ROOT
from tests.proof.chaos.nemesis import choose
from tests.proof.planted_bugs.catalogue import BUGS

PLANT_EACH = """
import os, sys, traceback
from tests.proof.planted_bugs.catalogue import BUGS

for name, bug in BUGS.items():
    if os.fork() == 0:
        try:
            bug.plant()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.wait()
    print(name, os.waitstatus_to_exitcode(status))
"""


def test_every_planted_bug_still_fits_the_product() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLANT_EACH], cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=True
    )

    assert dict(line.split() for line in done.stdout.splitlines()) == dict.fromkeys(BUGS, "0"), done.stderr


def test_the_run_of_a_planted_bug_uses_only_faults_that_harm_no_other_run() -> None:
    for bug in BUGS.values():
        wanted = bug.options.kinds
        found = choose(wanted, shared=True)

        assert wanted == ("none",) or {kind.name for kind in found} == set(wanted)
