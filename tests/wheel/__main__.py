"""`make wheel-check`: README's handler and its first lines, from the wheel, in an empty environment and a folder of its own.

The wheel and its extra `local` are installed into a new virtual environment, in the versions of requirements.lock. Then README's
commands run as they are printed, in two shells. Only the API's port is another one, because 8080 may be taken.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.conftest import ROOT
from tests.support.probes import wait_until
from tests.wheel.building import build
from turnstile.dev.stack.ports import choose_free

README = (ROOT / "README.md").read_text()
OURS = ("TURNSTILE_", "DATABASE_URL", "REDIS_URL", "AWS_", "OTEL_", "PYTHON", "VIRTUAL_ENV")
"""What the caller's shell may have, and a new user's has not."""
MARK = "STARTED_BY_WHEEL_CHECK"
START_SECONDS = 180.0
STOP_SECONDS = 120.0


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="turnstile-wheel-"))
    try:
        say("building the wheel")
        wheel = build(folder)
        app = folder / "app"
        app.mkdir()
        say("installing it with its extra `local` into a new environment, which takes a minute")
        install(wheel, app)
        (app / "my_handler.py").write_text(find_block("python", "async def respond(turn, ctx)"))
        follow(app)
        start(app)
    except AssertionError as error:
        say(f"failed: {error}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say("README's handler and the project of `turnstile new` answer from the wheel, and all of it has ended")
    return 0


def say(text: str) -> None:
    sys.stderr.write(f"wheel-check: {text}\n")


def find_block(language: str, having: str) -> str:
    """The one code block of README with these words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if having in block]
    return str(found)


def install(wheel: Path, app: Path) -> None:
    """Raises AssertionError."""
    constraints = app / "constraints.txt"
    # Without the hashes of the lock: with them, pip would want one of the wheel, too.
    locked = re.findall(r"^[\w.-]+==[^\\]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    constraints.write_text("\n".join(locked))
    given = bare_environment(app)
    run([sys.executable, "-m", "venv", str(app / ".venv")], app, given)
    python = str(app / ".venv/bin/python")
    run([python, "-m", "pip", "install", "--quiet", "--constraint", str(constraints), f"{wheel}[local]"], app, given)
    run([python, "-m", "pip", "check"], app, given)
    where = run([python, "-c", "import turnstile; print(turnstile.__file__)"], app, given)
    assert Path(where.strip()).is_relative_to(app), f"turnstile is imported from {where}"


def bare_environment(app: Path) -> dict[str, str]:
    """The environment of a new user's shell, which knows nothing of this clone."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if one != here)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"PATH": path, MARK: str(app)}


def run(command: list[str], app: Path, given: dict[str, str]) -> str:
    """What the command prints. Raises AssertionError unless it succeeds."""
    ran = subprocess.run(command, cwd=app, env=given, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, f"{command[-1]}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def follow(app: Path) -> None:
    """The two shells of README. Raises AssertionError."""
    port = str(choose_free())
    given = bare_environment(app) | {"TURNSTILE_API_PORT": port, "TURNSTILE_API_URL": f"http://127.0.0.1:{port}"}
    begin = find_block("sh", "turnstile worker --handler my_handler:respond")
    ask = find_block("sh", "turnstile submit chat-1").replace("8080", port)
    enter = "\n".join(line for line in begin.splitlines() if line.startswith((". ", "eval ")))

    def second_shell(script: str) -> str:
        return run(["sh", "-c", f"set -e\n{enter}\n{script}"], app, given)

    say("first shell: the stack, an API and a worker")
    with first_shell(begin, app, given):
        say("second shell: a turn with its reply, and one by curl")
        answered = second_shell(ask)
        assert "Message 1 of this conversation: Good morning" in answered, answered
        assert re.search(r"^HTTP/1\.1 202 ", answered, re.MULTILINE), answered
        location = re.search(r"^location: /v1/turns/(\S+)", answered, re.MULTILINE | re.IGNORECASE)
        assert location, answered
        shown = json.loads(second_shell(f"turnstile status {location[1]} --wait 60 --json"))
        assert shown["turn"]["status"] == "SUCCEEDED", shown
    second_shell("turnstile local down --purge")
    wait_until(lambda: not left_behind(app), within=STOP_SECONDS)


def start(app: Path) -> None:
    """README's first lines, after the installation. Raises AssertionError."""
    port = str(choose_free())
    given = bare_environment(app) | {"TURNSTILE_API_PORT": port, "TURNSTILE_API_URL": f"http://127.0.0.1:{port}"}
    enter = ". .venv/bin/activate"
    lines = find_block("sh", "turnstile new my-agent").splitlines()
    begin = "\n".join([enter, *lines[lines.index(next(one for one in lines if one.startswith("turnstile new"))) :]])
    say("`turnstile new` and `turnstile dev`")
    with first_shell(begin, app, given, ready=("Ctrl-C",)):
        ask = f"{enter}\ncd my-agent\neval \"$(turnstile local env)\"\nturnstile submit chat-1 'Good morning' --wait 60"
        answered = run(["sh", "-c", ask], app, given)
        assert "You said: Good morning" in answered, answered
    run(["sh", "-c", f"{enter}\ncd my-agent\nturnstile local down --purge"], app, given)
    wait_until(lambda: not left_behind(app), within=STOP_SECONDS)


@contextmanager
def first_shell(
    script: str, app: Path, given: dict[str, str], ready: tuple[str, ...] = ("api.listening", "worker.started")
) -> Iterator[None]:
    """Runs the script until the block ends; the block begins when it has said all that is `ready`. Raises AssertionError."""
    log = app / "first_shell.log"
    with log.open("wb") as output:
        # A session of its own: the signal reaches all that the shell started, as a terminal's does.
        shell = subprocess.Popen(
            ["sh", "-c", script],
            cwd=app,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def is_ready() -> bool:
        assert shell.poll() is None, log.read_text()
        return all(words in log.read_text() for words in ready)

    try:
        wait_until(is_ready, within=START_SECONDS)
        yield
    finally:
        # Not SIGINT: a shell without job control starts what is in the background with SIGINT ignored.
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(STOP_SECONDS)
        wait_until(lambda: not left_behind(app, "turnstile api", "my_handler:respond"), within=STOP_SECONDS)
    assert "Traceback" not in log.read_text(), log.read_text()


def left_behind(app: Path, *ends: str) -> list[str]:
    """The command lines of what was started here and still runs: all, or those with one of these ends."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == str(app):
                found.append(" ".join(process.cmdline()))
    return [line for line in found if not ends or line.endswith(ends)]


if __name__ == "__main__":
    sys.exit(main())
