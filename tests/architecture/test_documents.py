"""The documents say what the code does, as far as a machine can check.

python -m tests.architecture.test_documents      writes the state diagram into ARCHITECTURE.md
"""

import re
from pathlib import Path

import pytest
from fastapi import FastAPI

from turnstile.config.settings import Settings
from turnstile.dev.reference import pages
from turnstile.ops.terminal.exit_codes import MEANINGS, ExitCode
from turnstile.producer.app import server_config
from turnstile.producer.http.client_connections import Connections
from turnstile.relay.webhooks.delivery import PER_HOST
from turnstile.relay.webhooks.post import CONCURRENT
from turnstile.turn.status import TRANSITIONS, TurnStatus

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
README = ROOT / "README.md"
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*") if path.is_file()),
    *(
        ROOT / name
        for name in (
            "infra/README.md",
            "clients/typescript/README.md",
            "Dockerfile",
            "docker-compose.yml",
            "turnstile.toml.example",
        )
    ),
]
PAGES = [path for path in DOCUMENTS if path.suffix == ".md"]
PACKAGES = ("turnstile", "bench")

STATES = re.compile(r"(?<=<!-- states:begin -->\n)```mermaid\n.*?\n```(?=\n<!-- states:end -->)", re.DOTALL)
REFERENCE = re.compile(
    r"`((?:turnstile|worker|producer|relay|ops|bench|migrations|examples|tests)/[\w/]+\.\w+)(?::(\w+))?`"
)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
# In pieces, so that this file does not name what it forbids.
REGISTRY = re.compile(r"py[p]i\.o|pythonh[o]sted|npm[j]s\.|deb\.debi[a]n|(?:docker|ghcr|quay)\.i[o]\b|crates\.i[o]\b")
MACHINE_PATH = re.compile(r"(?<![\w.}$-])/(?:wor[k]|roo[t]|hom[e]|User[s]|far[m]|mn[t])/")

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
every_decision = pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)


def mermaid() -> str:
    """The state diagram, from TRANSITIONS."""
    lines = ["stateDiagram-v2"]
    for before, follows in TRANSITIONS.items():
        for after, verb in follows.items():
            lines.append(f"    {'[*]' if before is None else before} --> {after}: {verb}")
    lines += [f"    {status} --> [*]" for status in TurnStatus if status.is_terminal]
    return "\n".join(lines)


def test_the_state_diagram_is_that_of_the_code() -> None:
    [drawn] = STATES.findall(ARCHITECTURE.read_text())

    assert drawn == f"```mermaid\n{mermaid()}\n```", "run: python -m tests.architecture.test_documents"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_has_its_place_in_the_architecture(package: str) -> None:
    text = ARCHITECTURE.read_text()
    folders = [path.parent.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("__init__.py")]

    assert folders
    assert [name for name in sorted(folders) if f"| `{name}/` |" not in text] == []


@every_page
def test_every_reference_is_a_file_and_a_name_in_it(path: Path) -> None:
    for file, name in REFERENCE.findall(path.read_text()):
        assert (ROOT / file).is_file(), file
        assert not name or re.search(rf"\b{name}\b", (ROOT / file).read_text()), f"{file}:{name}"


@every_page
def test_every_link_leads_somewhere(path: Path) -> None:
    for target, section in LINK.findall(path.read_text()):
        page = path.parent / target if target else path
        assert page.exists(), target
        if section:
            headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
            assert section in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_document
def test_no_document_names_a_registry_or_a_path_of_a_machine(path: Path) -> None:
    text = path.read_text()

    assert REGISTRY.findall(text) == []
    assert MACHINE_PATH.findall(text) == []


@pytest.mark.parametrize(("page", "text"), [pytest.param(*pair, id=pair[0].stem) for pair in pages().items()])
def test_a_reference_page_says_what_the_code_says(page: Path, text: str) -> None:
    assert page.read_text("utf-8") == text, "run: python -m turnstile.dev.reference"


def test_every_exit_code_has_a_meaning() -> None:
    assert {*MEANINGS} == {*ExitCode}


def test_the_example_of_queue_declarations_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnstile.config.config_file import load

    monkeypatch.delenv("TURNSTILE_QUEUES", raising=False)

    assert [queue.dlq for queue in load(config=ROOT / "turnstile.toml.example").queues] == [
        "turns-dlq",
        "strict-dlq.fifo",
    ]


def test_the_handler_of_the_readme_is_a_handler_of_twenty_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnstile.worker.lifecycle.handler_loading import load

    [code] = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "handler_of_the_readme.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert load("handler_of_the_readme:respond").is_async
    assert len(code.split("respond(turn, ctx)")[1].splitlines()) <= 20


@every_decision
def test_a_decision_is_short_and_whole(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) <= 50
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_the_index_lists_every_decision_by_its_title() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text()

    listed = re.findall(r"^- \[(.*)\]\((.*)\)$", index, re.MULTILINE)
    assert listed == [(path.read_text().splitlines()[0].removeprefix("# "), path.name) for path in DECISIONS]


def test_the_event_flow_states_the_cap_of_a_slow_receiver() -> None:
    text = (ROOT / "docs" / "event-flow.md").read_text()
    stated = re.findall(r"A process has (\d+) POSTs under way at most, and (\d+) to one host", text)

    assert stated == [(str(CONCURRENT), str(PER_HOST))]


def test_the_api_keeps_an_idle_connection_longer_than_the_load_balancer_does() -> None:
    text = (ROOT / "infra" / "examples" / "complete" / "load_balancer.tf").read_text()
    [idle_timeout] = re.findall(r"^\s*idle_timeout\s*=\s*(\d+)", text, re.MULTILINE)

    assert int(idle_timeout) < server_config(Settings(), FastAPI(), Connections(1)).timeout_keep_alive


def main() -> None:
    """Writes the diagram."""
    diagram = f"```mermaid\n{mermaid()}\n```"
    ARCHITECTURE.write_text(STATES.sub(lambda _: diagram, ARCHITECTURE.read_text()))


if __name__ == "__main__":
    main()
