"""The page on growth says of each table what ends its rows."""

import re

from tests.conftest import ROOT
from turnstile.schema import METADATA


def test_the_page_has_every_table_once() -> None:
    [table] = re.findall(r"## What ends each row\n(.*?)\n## ", (ROOT / "docs/growth.md").read_text(), re.DOTALL)
    rows = [name for line in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)]

    assert sorted(rows) == sorted(table.name for table in METADATA.tables.values())
