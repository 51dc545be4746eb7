"""The profile `monitoring` of the compose file: Prometheus scrapes what serves metrics, and Grafana finds Prometheus."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
PROFILE = {name: service for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"]}
PROMETHEUS = yaml.safe_load((ROOT / "infra/prometheus/prometheus.yml").read_text())
DATA_SOURCES = yaml.safe_load((ROOT / "infra/grafana/datasources.yml").read_text())["datasources"]
DASHBOARDS = yaml.safe_load((ROOT / "infra/grafana/dashboards.yml").read_text())["providers"]
DASHBOARD = json.loads((ROOT / "infra/grafana/turnstile.json").read_text())
RULES = yaml.safe_load((ROOT / "infra/prometheus/alerts.yml").read_text())["groups"]

every_service = pytest.mark.parametrize("name", sorted(PROFILE))


def mounted(service: str) -> dict[str, str]:
    """The files of this checkout by their places in the container."""
    found = {}
    for volume in PROFILE[service]["volumes"]:
        source, target, mode = volume.split(":")
        assert mode == "ro"
        found[target] = source.removeprefix("./")
    return found


def inside(service: str) -> int:
    """The port that a service has inside the network of the others."""
    [port] = PROFILE[service]["ports"]
    return int(port.rpartition(":")[2])


def test_nothing_of_it_runs_unless_asked() -> None:
    assert PROFILE.keys() == {"prometheus", "grafana"}
    assert not {
        needed for name in SERVICES.keys() - PROFILE.keys() for needed in SERVICES[name].get("depends_on", {})
    } & (PROFILE.keys())


@every_service
def test_its_images_have_a_version_and_its_ports_are_on_loopback(name: str) -> None:
    assert re.search(r":v?\d+\.\d+\.\d+$", PROFILE[name]["image"])
    assert [port.split(":")[0] for port in PROFILE[name]["ports"]] == ["127.0.0.1"]


@every_service
def test_every_file_that_it_mounts_is_there(name: str) -> None:
    assert [file for file in mounted(name).values() if not (ROOT / file).is_file()] == []


def test_what_serves_metrics_is_scraped_and_nothing_else() -> None:
    """Every process of the product that goes on: what ends has nothing to scrape."""
    scraped = {
        (name, found["port"])
        for job in PROMETHEUS["scrape_configs"]
        for found in job["dns_sd_configs"]
        for name in found["names"]
    }
    serving = {
        (name, int(service["environment"]["TURNSTILE_METRICS_PORT"]))
        for name, service in SERVICES.items()
        if service.get("command", [""])[0] in ("api", "worker", "relay")
    }

    assert scraped == serving


def test_no_port_of_metrics_is_published() -> None:
    """It asks for no key."""
    for name in ("api", "worker"):
        port = SERVICES[name]["environment"]["TURNSTILE_METRICS_PORT"]
        assert [one for one in SERVICES[name].get("ports", []) if one.endswith(f":{port}")] == []


def test_prometheus_is_given_its_configuration_and_its_rules() -> None:
    [option] = [word for word in PROFILE["prometheus"]["command"] if word.startswith("--config.file=")]
    configuration = option.partition("=")[2]
    folder = configuration.rpartition("/")[0]

    assert mounted("prometheus") == {
        configuration: "infra/prometheus/prometheus.yml",
        **{f"{folder}/{file}": f"infra/prometheus/{file}" for file in PROMETHEUS["rule_files"]},
    }


def test_a_rate_of_the_rules_spans_several_scrapes() -> None:
    shortest = min(
        int(minutes)
        for group in RULES
        for rule in group["rules"]
        for minutes in re.findall(r"\[(\d+)m\]", rule["expr"])
    )

    assert 60 * shortest >= 4 * int(PROMETHEUS["global"]["scrape_interval"].removesuffix("s"))


def test_a_rate_of_the_dashboard_spans_several_scrapes() -> None:
    """Grafana makes `$__rate_interval` four times the interval of the data source, which is 15 s where it names none."""
    [source] = DATA_SOURCES
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]

    ranges = {one for expression in expressions for one in re.findall(r"\[([^\]]+)\]", expression)}

    assert ranges == {"$__rate_interval"}
    assert source.get("jsonData", {}).get("timeInterval", "15s") == PROMETHEUS["global"]["scrape_interval"]


def test_the_data_source_is_the_prometheus_of_the_profile_and_the_default() -> None:
    [source] = DATA_SOURCES

    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert source["url"] == f"http://prometheus:{inside('prometheus')}"


def test_every_panel_asks_a_data_source_that_is_there() -> None:
    [variable] = [one for one in DASHBOARD["templating"]["list"] if one["type"] == "datasource"]
    asked = {
        (one["datasource"]["type"], one["datasource"]["uid"])
        for panel in DASHBOARD["panels"]
        for one in (panel, *panel.get("targets", []))
        if panel["type"] != "row"
    }

    # A variable without a value chooses the default of its type.
    assert asked == {(variable["query"], f"${{{variable['name']}}}")}
    assert variable["query"] in {source["type"] for source in DATA_SOURCES}
    assert "current" not in variable


def test_grafana_is_given_its_data_source_and_the_dashboard() -> None:
    [provider] = DASHBOARDS
    home = PROFILE["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]

    assert mounted("grafana") == {
        "/etc/grafana/provisioning/datasources/turnstile.yml": "infra/grafana/datasources.yml",
        "/etc/grafana/provisioning/dashboards/turnstile.yml": "infra/grafana/dashboards.yml",
        home: "infra/grafana/turnstile.json",
    }
    assert home.rpartition("/")[0] == provider["options"]["path"]
