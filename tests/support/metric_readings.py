"""Reads metrics: those of this process, and those that a process of the product serves."""

import asyncio
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from turnstile.telemetry.instruments import REGISTRY


def reading(name: str, **labels: str) -> float | None:
    """One sample of this process's registry; None if there is none."""
    return REGISTRY.get_sample_value(name, labels)


@contextmanager
def rising(name: str, by: Any = 1.0, **labels: str) -> Iterator[None]:
    """The sample must rise by so much within the block; `by` is a number or a `pytest.approx`."""
    before = reading(name, **labels) or 0.0
    yield
    assert (reading(name, **labels) or 0.0) - before == by, f"{name} {labels}"


class Scrape:
    """What one port served at one moment."""

    def __init__(self, text: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    @classmethod
    async def of(cls, port: int) -> "Scrape":
        return cls(await asyncio.to_thread(fetch, port))

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of the samples that have these labels, and perhaps others; None if there are none."""
        found = [one.value for one in self._samples if one.name == name and labels.items() <= one.labels.items()]
        return sum(found) if found else None

    @property
    def names(self) -> set[str]:
        return {sample.name for sample in self._samples}


def fetch(port: int, accept: str = "text/plain", query: str = "") -> str:
    """The body that the port answers with."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics?{query}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
        return str(response.read().decode())
