"""Every page is followed by a test, and the index says how and explains what the reader fills in."""

import re
import shlex

import pytest
from botocore.session import get_session

from tests.runbooks.aws_line import NoSuchLineError, read_call
from tests.runbooks.deployment import NOT_EMULATED, check_terraform, output
from tests.runbooks.page import INDEX, NAMED, PAGES, PROGRAMS, ROOT, Step, read_placeholders, read_steps
from turnstile.ops.command_list import COMMANDS

STEPS = {page.stem: read_steps(page.read_text()) for page in PAGES}
every_page = pytest.mark.parametrize("name", STEPS)


@every_page
def test_a_page_has_the_test_that_follows_it(name: str) -> None:
    test = ROOT / f"tests/runbooks/test_{name.replace('-', '_')}.py"

    assert STEPS[name]
    assert re.search(r"^async def test_the_page\(\s*reader: Reader\b", test.read_text(), re.MULTILINE)


@every_page
def test_a_page_leads_to_the_index(name: str) -> None:
    assert "(README.md)" in (INDEX.parent / f"{name}.md").read_text()


def test_the_readme_leads_to_the_index() -> None:
    assert "(docs/runbooks/README.md)" in (ROOT / "README.md").read_text()


@every_page
def test_a_page_hides_no_step_in_a_block_that_nobody_reads(name: str) -> None:
    """A block without a language, and one of `text`, is what a program says."""
    languages = re.findall(
        r"^ *```(\w*)\n(?:.*?)^ *```$", (INDEX.parent / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL
    )

    assert {*languages} <= {"sh", "sql", "json", "dockerfile", "text", ""}


def test_the_index_explains_every_word_to_fill_in() -> None:
    explained = {
        word
        for row in re.findall(r"^\| (`[A-Z].*?) \|", INDEX.read_text(), re.MULTILINE)
        for word in re.findall(r"`([A-Z_]+)`", row)
    }

    assert explained == set().union(*(read_placeholders(step) for steps in STEPS.values() for step in steps))


def test_the_index_lists_every_page_and_what_was_not_run() -> None:
    text = INDEX.read_text()

    assert [page.name for page in PAGES if f"({page.name})" not in text] == []
    variables = {one for steps in STEPS.values() for step in steps for one in re.findall(r"\$\w+", step.text)}
    assert [one for one in variables if f"`{one}`" not in text] == []
    assert {*re.findall(r"`aws \w+ ([a-z-]+)`", text.partition("## What was tried")[2])} == {
        step.text.split()[2]
        for steps in STEPS.values()
        for step in steps
        if step.program == "aws" and read_call(_words(step), get_session()).operation.name in NOT_EMULATED
    }


def _words(step: Step) -> list[str]:
    return [
        re.sub(r"\$\(terraform output -raw (\w+)\)", lambda found: output(found[1]), word)
        for word in shlex.split(step.text)[1:]
    ]


def test_the_lines_for_aws_in_the_page_of_the_deployment_can_be_read() -> None:
    """They are the way in which an operator runs the commands of the pages there."""
    lines = [
        step
        for step in read_steps((ROOT / "infra/README.md").read_text())
        if (step.program, step.block) == ("aws", "sh")
    ]

    assert len([read_call(_words(step), get_session()) for step in lines]) >= 5


def test_a_name_that_is_not_a_step_is_a_command_that_needs_more_words() -> None:
    assert [name for name in NAMED if name.split()[1] not in COMMANDS] == []


def test_the_steps_of_a_page_are_its_lines_its_blocks_and_the_commands_in_its_sentences() -> None:
    page = """# About `turnstile doctor`
`turnstile workers` says so; `turnstile retry` is a name, and `worker` is not a command.
   ```sh
   turnstile why TURN   # a comment
   aws ecs stop-task --cluster CLUSTER \\
       --task TASK
   ```
```sql
-- in psql "$OWNER_URL"
SELECT 1;
```
```json
{"turnstile": "doctor"}
```
"""

    steps = read_steps(page)

    assert [(step.program, step.block, step.text.splitlines()[-1]) for step in steps] == [
        ("turnstile", None, "turnstile workers"),
        ("turnstile", "sh", "turnstile why TURN"),
        ("aws", "sh", "aws ecs stop-task --cluster CLUSTER --task TASK"),
        ("sql", "sql", "SELECT 1;"),
    ]
    assert [read_placeholders(step) for step in steps] == [set(), {"TURN"}, {"CLUSTER", "TASK"}, set()]
    assert steps[-1].url == "OWNER_URL"
    assert {step.program for step in steps} <= {*PROGRAMS, "sql"}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("ecs stop-tasks --cluster c --task t", "aws ecs stop-tasks"),
        ("ecs stop-task --cluster c --tasks t", "no option --tasks"),
        ("ecs stop-task --cluster c", "missing: task"),
        ("ecs run-task --task-definition t --launch-type FARGATES", "FARGATES is none of"),
        ("logs tail group --from 30m", "aws logs tail"),
    ],
)
def test_a_line_that_aws_would_refuse_is_refused(line: str, wrong: str) -> None:
    with pytest.raises(NoSuchLineError, match=wrong):
        read_call(line.split(), get_session())


def test_an_option_becomes_the_parameter_of_its_call() -> None:
    line = "rds modify-db-instance --db-instance-identifier d --allocated-storage 200 --apply-immediately --query x"

    call = read_call(line.split(), get_session())

    assert (call.service, call.method, call.query) == ("rds", "modify_db_instance", "x")
    assert call.parameters == {"DBInstanceIdentifier": "d", "AllocatedStorage": 200, "ApplyImmediately": True}


@pytest.mark.parametrize(
    "line", ["apply -target=module.migration", "apply -var images=x", "apply -targets=module.migrate", "destroy"]
)
def test_a_line_of_terraform_names_what_the_example_has(line: str) -> None:
    with pytest.raises(AssertionError):
        check_terraform(line.split())
