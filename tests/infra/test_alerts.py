"""The Prometheus rules and the dashboard name metrics that exist, and the rules are the alarms of Terraform."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

import turnstile.telemetry.metrics

INFRA = Path(__file__).parents[2] / "infra"
ROOT = INFRA.parent
RULES = [
    rule for group in yaml.safe_load((INFRA / "prometheus/alerts.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((INFRA / "grafana/turnstile.json").read_text())
TARGETS = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
EXPRESSIONS = [*((rule["alert"], rule["expr"]) for rule in RULES), *TARGETS]

ALARM_BLOCK = re.compile(r"^    ([a-z-]+) = \{\n(.*?)^    \}$", re.MULTILINE | re.DOTALL)
ALARM_NAMES = {
    # Alarms that are resources of their own, with the end of their name.
    "relay-silent": ("page", "operators", "relay-silent.md"),
    "relay-step-failed": ("page", "operators", "relay-silent.md"),
    "producer-quiet": ("tell", "operators", "sqs-throttled.md"),
    "api-errors": ("page", "operators", "postgres-failover.md"),
    "api-down": ("page", "operators", "bad-deploy.md"),
}

NOT_IN_PROMETHEUS = {
    "service-cpu": "the orchestrator's own metrics: a process does not know its share",
    "service-memory": "the orchestrator's own metrics: a process does not know its limit",
    "postgres-cpu": "postgres_exporter, or the cloud's",
    "postgres-storage": "postgres_exporter, or the cloud's",
    "postgres-memory": "postgres_exporter, or the cloud's",
    "postgres-connections": "postgres_exporter, or the cloud's",
    "redis-cpu": "redis_exporter, or the cloud's",
    "redis-evictions": "redis_exporter, or the cloud's",
    "redis-replication-lag": "redis_exporter, or the cloud's",
}
NOT_IN_TERRAFORM = {
    "heartbeat-late": "no log line reports it; `leases-lost` and `worker-lost` follow from it",
    "postgres-away": "`api-errors` and `relay-silent` see it on AWS",
    "redis-away": "`lock-unavailable` sees it on AWS",
    "sqs-away": "AWS's own health events report it; `deaf-workers` sees it",
}

TEMPLATE = re.compile(r"\$labels\.(\w+)")
OF_THE_SCRAPE = {"job", "instance"}


@dataclass
class Read:
    """What an expression looks at."""

    series: list[promql_parser.VectorSelector] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)
    """The labels that it groups or matches by."""


def read(expression: str) -> Read:
    """Raises ValueError if Prometheus would not load the expression."""
    found = Read()

    def visit(part: promql_parser.Expr) -> None:
        match part:
            case promql_parser.VectorSelector():
                found.series.append(part)
            case promql_parser.AggregateExpr(modifier=by) if by is not None:
                found.grouped |= set(by.labels)
            case promql_parser.BinaryExpr(modifier=modifier) if modifier is not None and modifier.matching is not None:
                found.grouped |= set(modifier.matching.labels)

    # Grafana puts a time in before Prometheus reads it.
    promql_parser.walk(promql_parser.parse(expression.replace("$__rate_interval", "5m")), visit)
    return found


def terraform_alarms() -> dict[str, tuple[str, str, str]]:
    """Severity, owner and runbook of each alarm of the module, by its name."""
    found = dict(ALARM_NAMES)
    for file in ("main.tf", "platform.tf"):
        for name, block in ALARM_BLOCK.findall((INFRA / "modules/alarms" / file).read_text()):
            [runbook] = re.findall(r'runbook\s*= "([\w-]+\.md)"', block)
            owner = re.findall(r'owner = "(\w+)"', block) or ["operators"]
            [severity] = re.findall(r"actions\s*= local\.(page|tell)", block)
            assert found.setdefault(name, (severity, owner[0], runbook)) == (severity, owner[0], runbook), name
    return found


@pytest.fixture(scope="module")
def labels_by_metric() -> dict[str, set[str]]:
    """The labels of each series that a process exports, from the declarations."""
    found = {name: set[str]() for name in ("process_resident_memory_bytes", "process_cpu_seconds_total")}
    for one in vars(turnstile.telemetry.metrics).values():
        name, labels = getattr(one, "name", None), getattr(one, "labels", None)
        if not (isinstance(name, str) and name.startswith("turnstile_")):
            continue
        if one.kind == "histogram":
            found |= {f"{name}_bucket": {*labels, "le"}, f"{name}_sum": {*labels}, f"{name}_count": {*labels}}
        else:
            found[name] = set(labels)
    return found


def test_every_alarm_of_terraform_is_a_rule_or_has_a_reason() -> None:
    rules = {
        rule["labels"]["alarm"]: (
            rule["labels"]["severity"],
            rule["labels"]["owner"],
            rule["annotations"]["runbook"].rpartition("/")[2],
        )
        for rule in RULES
    }
    alarms = terraform_alarms()

    assert len(alarms) >= 30
    assert alarms.keys() - rules.keys() == NOT_IN_PROMETHEUS.keys()
    assert rules.keys() - alarms.keys() == NOT_IN_TERRAFORM.keys()
    assert {name: rules[name] for name in rules.keys() & alarms.keys()} == {
        name: alarms[name] for name in rules.keys() & alarms.keys()
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_who_mends_what_and_where_to_look(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Turnstile[A-Z]\w+", rule["alert"])
    assert rule["labels"].keys() == {"alarm", "severity", "owner"}
    assert rule["annotations"]["summary"].endswith(".")
    assert (ROOT / rule["annotations"]["runbook"]).is_file()
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "0m"))
    # What an event has set off is over by itself: it has no `for`. A state must last, but for that of a worker, which has
    # lasted already; and so must a count of nothing, with which each restart begins.
    is_set_off = re.search(r"increase\(|_failed_turns|_halted|_workers\{", rule["expr"]) and "== 0" not in rule["expr"]
    assert "for" in rule or is_set_off


def test_the_readme_sends_to_the_runbook_of_the_alarm() -> None:
    rows = re.findall(
        r"^\| (`[a-z].*?) \| (page|tell)\b.*? \| (.*?) \|$", (INFRA / "README.md").read_text(), re.MULTILINE
    )
    documented = {
        # One page for all alarms of the row, or one for each.
        name: (severity, pages[min(place, len(pages) - 1)])
        for about, severity, look in rows
        if (pages := re.findall(r"runbooks/([\w-]+\.md)", look))
        for place, name in enumerate(name for name in re.findall(r"`([a-z-]+)`", about) if name in terraform_alarms())
    }

    assert documented == {name: (severity, runbook) for name, (severity, _, runbook) in terraform_alarms().items()}


@pytest.mark.parametrize("name", sorted(terraform_alarms()))
def test_the_runbook_of_every_alarm_is_a_page(name: str) -> None:
    assert (ROOT / "docs/runbooks" / terraform_alarms()[name][2]).is_file()


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])
def test_every_metric_and_label_of_an_expression_is_declared(
    labels_by_metric: dict[str, set[str]], title: str, expression: str
) -> None:
    found = read(expression)
    assert found.series, "it looks at nothing of Turnstile"
    of_the_expression = set[str]()
    for one in found.series:
        assert one.name in labels_by_metric, f"{title}: no such metric"
        of_the_expression |= labels_by_metric[one.name]
        selected = {matcher.name for matcher in one.matchers.matchers}
        assert selected <= labels_by_metric[one.name] | OF_THE_SCRAPE, f"{title}: {one.name} has no such label"
    assert found.grouped <= of_the_expression | OF_THE_SCRAPE, f"{title}: grouped by what no metric has"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_text_uses_only_labels_that_the_result_has(rule: dict[str, Any]) -> None:
    assert set(TEMPLATE.findall(rule["annotations"]["summary"])) <= read(rule["expr"]).grouped


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_text_reads_well_for_the_number_one(rule: dict[str, Any]) -> None:
    assert not re.search(r"\{\{ \$value \}\} \w+s\b", rule["annotations"]["summary"])


def test_a_counter_is_never_looked_at_without_its_rate() -> None:
    for title, expression in EXPRESSIONS:
        for counter in re.findall(r"turnstile_\w+_(?:total|bucket|count|sum)\b", expression):
            assert re.search(rf"(rate|increase)\({counter}", expression), title


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken = set[tuple[int, int]]()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_first_row_of_the_dashboard_is_single_values_with_thresholds_and_runbooks() -> None:
    row, *panels = sorted(DASHBOARD["panels"], key=lambda panel: (panel["gridPos"]["y"], panel["gridPos"]["x"]))
    first = [panel for panel in panels if panel["gridPos"]["y"] == panels[0]["gridPos"]["y"]]

    assert (row["type"], {panel["type"] for panel in first}, len(first)) == ("row", {"stat"}, 6)
    for panel in first:
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"], panel["title"]
        assert (ROOT / panel["description"].partition("Runbook: ")[2]).is_file(), panel["title"]
