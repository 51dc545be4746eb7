"""The image, its packages and the compose file, as far as reading them shows; `make test-containers` builds and runs them."""

import itertools
import json
import re
import tomllib
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.conftest import ROOT
from tests.support.stacks import containers
from turnstile.ops import container_health

DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
IGNORED = (ROOT / ".dockerignore").read_text().splitlines()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
ROLES = (ROOT / "infra/compose/roles.sql").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

Stage = list[tuple[str, str]]


def stages() -> dict[str, Stage]:
    """The instructions of each stage, in order."""
    found: dict[str, Stage] = {}
    for line in DOCKERFILE.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found[rest.split(" AS ")[1]] = instructions = [(word, rest.split(" AS ")[0])]
        elif word.isupper() and word != "ARG":
            instructions.append((word, " ".join(rest.split())))
    return found


def arguments(stage: Stage, wanted: str) -> list[str]:
    return [rest for word, rest in stage if word == wanted]


def locked(name: str) -> set[str]:
    """The names of the packages of a lock."""
    return set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(), re.MULTILINE))


def names(requirements: Any) -> set[str]:
    return {re.split(r"[\[=<>; ]", one)[0].lower() for one in requirements}


FINISHED = ("emulator", "turnstile")
every_target = pytest.mark.parametrize("target", FINISHED)


def test_a_build_without_a_target_makes_the_image_of_production() -> None:
    assert list(stages())[-1] == "turnstile"


@every_target
def test_the_user_is_not_root_and_is_a_number_that_kubernetes_can_check(target: str) -> None:
    assert arguments(stages()[target], "USER") == ["10001:10001"]


def test_the_only_writable_place_on_fargate_is_writable_for_who_is_not_root() -> None:
    mounted = re.findall(r'containerPath\s*=\s*"([^"]+)"', (ROOT / "infra/modules/service/main.tf").read_text())

    assert [json.loads(volume) for volume in arguments(stages()["turnstile"], "VOLUME")] == [mounted] == [["/tmp"]]  # noqa: S108 - not a file of ours


def test_the_image_of_production_has_no_layer_with_what_was_deleted() -> None:
    assert stages()["turnstile"][:2] == [("FROM", "scratch"), ("COPY", "--from=bare / /")]


def test_the_health_check_needs_no_shell_and_knows_the_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    [check] = arguments(stages()["turnstile"], "HEALTHCHECK")
    program, isolated, word, code = json.loads(check.partition("CMD ")[2])
    asked: list[list[str]] = []
    monkeypatch.setattr(container_health, "main", asked.append)
    monkeypatch.setenv("TURNSTILE_HEALTH_PORT", "8081")

    for variables in ({}, {"TURNSTILE_API_PORT": "9000"}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            exec(code, {})  # noqa: S102 - as the image's Python does

    assert (program, isolated, word) == ("python", "-I", "-c")
    assert asked == [["api=8080", "worker=8081"], ["api=9000", "worker=8081"]]


def test_signals_reach_the_process_itself_and_not_a_shell() -> None:
    assert arguments(stages()["turnstile"], "ENTRYPOINT") == ['["turnstile"]']


def test_a_lambda_function_starts_the_python_that_has_the_packages() -> None:
    entry = re.search(r"entry_point\s*=\s*(\[.*\])", (ROOT / "infra/modules/lambda/main.tf").read_text())

    assert entry
    home, _, _ = json.loads(entry[1])[0].rpartition("/bin/python")
    assert [copied.split()[-1] for copied in arguments(stages()["turnstile"], "COPY")] == ["/", home, home]


def test_every_package_of_the_product_is_in_it() -> None:
    linked = {path.name for path in (ROOT / "turnstile").iterdir() if path.is_symlink()}
    wanted = {name.rstrip("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]} | linked

    assert {copied.split("/")[0] for copied in arguments(stages()["product"], "COPY") if "/ " in copied} == wanted


def test_the_tools_of_the_developers_machine_are_not_in_it() -> None:
    assert "turnstile/dev" in IGNORED[IGNORED.index("!turnstile") :]


def test_what_is_copied_is_let_into_the_build() -> None:
    copied = [
        name.rstrip("/")
        for stage in stages().values()
        for instruction in arguments(stage, "COPY")
        if not instruction.startswith("--from")
        for name in instruction.split()[:-1]
    ]

    assert sorted(copied) == sorted(line[1:] for line in IGNORED if line.startswith("!"))


def installs(target: str) -> list[str]:
    """The commands by which a stage installs packages."""
    return re.findall(r"pip [^&]*\binstall [^&]*", " && ".join(arguments(stages()[target], "RUN")))


@pytest.mark.parametrize("target", ["packages", "emulator-packages"])
def test_no_package_is_installed_without_its_hash(target: str) -> None:
    assert installs(target)
    assert all("--require-hashes" in one for one in installs(target))


@pytest.mark.parametrize("target", ["packages", "emulator-packages", "product"])
def test_what_is_deployed_is_what_is_tested(target: str) -> None:
    assert re.search(r"--(build-)?constraints requirements\.lock\b", installs(target)[-1])


def test_the_lock_has_what_the_project_asks_for() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [PROJECT["build-system"]["requires"], PROJECT["project"]["dependencies"], *extras.values()]

    assert names(itertools.chain.from_iterable(wanted)) <= locked("requirements.lock"), "run: make lock"


def test_the_image_has_telemetry_and_the_live_screen_and_none_of_the_tools() -> None:
    assert re.findall(r"--extra (\w+)", installs("packages")[-1]) == ["telemetry", "top"]


def test_the_bill_of_materials_is_of_what_the_image_has() -> None:
    sbom = (ROOT / "Makefile").read_text()

    assert re.findall(r"--extra (\w+)", sbom) == re.findall(r"--extra (\w+)", installs("packages")[-1])


def test_compose_runs_the_servers_that_the_tests_run_on() -> None:
    services = COMPOSE["services"]

    assert (services["postgres"]["image"], services["redis"]["image"]) == (containers.POSTGRES, containers.REDIS)
    assert services["sqs"]["build"]["target"] == "emulator"


def test_compose_s_redis_has_a_limit_and_a_password_that_the_processes_use() -> None:
    redis, url = COMPOSE["services"]["redis"], COMPOSE["x-turnstile"]["environment"]["REDIS_URL"]
    given = dict(itertools.pairwise(redis["command"]))

    assert (given["--maxmemory"], given["--maxmemory-policy"]) == ("2gb", "noeviction")
    assert urlsplit(url).password == given["--requirepass"] == redis["environment"]["REDISCLI_AUTH"]


def test_compose_gives_each_process_its_own_role_of_the_database() -> None:
    services = COMPOSE["services"]
    made = dict(re.findall(r"^CREATE ROLE (\w+) LOGIN PASSWORD '(\w+)'", ROLES, re.MULTILINE))
    roles = {}
    for name in ("migrate", "grant", "api", "worker", "operator"):
        url = urlsplit(services[name]["environment"]["DATABASE_URL"])
        assert made[url.username or ""] == url.password
        roles[name] = url.username
    granted = [word.removeprefix("--").split("=") for word in services["grant"]["command"][1:]]

    assert roles["migrate"] == roles["grant"] == "turnstile_schema"
    assert {*roles.values()} == {*made}
    assert granted == [
        ["api", roles["api"]], ["worker", roles["worker"]], ["relay", roles["worker"]], ["operator", roles["operator"]],
    ]  # fmt: skip
    for name in ("api", "worker"):
        assert services[name]["depends_on"]["grant"] == {"condition": "service_completed_successfully"}


def test_compose_gives_a_worker_the_time_that_it_takes_to_drain() -> None:
    worker = COMPOSE["services"]["worker"]
    grace, long_poll = float(worker["environment"]["TURNSTILE_GRACE_SECONDS"]), 20.0

    assert float(worker["stop_grace_period"].removesuffix("s")) > max(grace, long_poll) + 5


def test_compose_publishes_the_api_alone_and_on_loopback_unless_asked() -> None:
    published = {
        name: service["ports"]
        for name, service in COMPOSE["services"].items()
        if "ports" in service and "profiles" not in service
    }

    assert published == {"api": ["${PUBLISH_HOST:-127.0.0.1}:${PUBLISH_PORT:-8080}:8080"]}


@pytest.mark.parametrize(
    "service", ["postgres", "redis", "sqs", "queues", "migrate", "grant", "api", "worker", "operator"]
)
def test_compose_confines_each_service(service: str) -> None:
    declared = COMPOSE["services"][service]

    assert (declared["read_only"], declared["cap_drop"]) == (True, ["ALL"])


@pytest.mark.parametrize("service", ["sqs", "queues", "migrate", "grant", "api", "worker", "operator"])
def test_somebody_buries_what_a_handlers_programs_leave_behind(service: str) -> None:
    # Orphans become children of process 1, and Python waits for none but its own.
    assert COMPOSE["services"][service]["init"] is True
