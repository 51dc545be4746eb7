"""What Prometheus itself says of a rule over scrapes, where its `promtool` is installed: the same as tests/infra/promql.py."""

import json
import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.infra.promql import Scrape, Series


def agreed(folder: Path, rules: Path, rule: Mapping[str, Any], scrapes: Sequence[Scrape], fired: float | None) -> None:
    """The rule of the file first fires at `fired`, or never."""
    if (promtool := shutil.which("promtool")) is None:
        return
    every = scrapes[1].at - scrapes[0].at
    fires = f'ALERTS{{alertname="{rule["alert"]}",alertstate="firing"}}'
    if fired is None:
        ever = f"count(count_over_time({fires}[1d]))"
        checks = [{"expr": ever, "eval_time": f"{scrapes[-1].at:.0f}s", "exp_samples": []}]
    else:
        checks = [
            {"expr": f"count({fires}) > bool 0", "eval_time": f"{fired:.0f}s", "exp_samples": [{"labels": "{}", "value": 1}]},
            {"expr": f"count({fires})", "eval_time": f"{fired - every:.0f}s", "exp_samples": []},
        ][: 2 if fired else 1]  # fmt: skip
    names = {series for scrape in scrapes for series in scrape.samples if series[0] in rule["expr"]}
    given = [
        {
            "series": f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in sorted(labels))}}}",
            "values": " ".join(_value(scrapes, place, (name, labels)) for place in range(len(scrapes))),
        }
        for name, labels in names
    ]
    test = {"interval": f"{every:.0f}s", "input_series": given, "promql_expr_test": checks}
    file = folder / "rules.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": f"{every:.0f}s", "tests": [test]})
    )
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _value(scrapes: Sequence[Scrape], place: int, series: Series) -> str:
    value = scrapes[place].samples.get(series)
    if value is not None:
        return "NaN" if math.isnan(value) else repr(value)
    return "stale" if place and series in scrapes[place - 1].samples else "_"
