"""An API without keys answers to this machine alone: not to a page that a browser shows, by whatever name it calls."""

import pytest

from turnstile.producer.http.local_only import refuse_other_sites
from turnstile.producer.http.problems import ProblemError


def ask(**headers: str) -> None:
    given = {"Host": "127.0.0.1:8080", **headers}
    refuse_other_sites([(name.lower().encode(), value.encode()) for name, value in given.items()])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080"])
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:8080", "http://localhost:3000"])
def test_a_request_of_this_machine_is_answered(host: str, origin: str | None) -> None:
    ask(Host=host, **({} if origin is None else {"Origin": origin}))


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example:8080"},
        {"Host": "127.0.0.1.rebound.example"},
        {"Host": "user@rebound.example"},
        {"Host": ""},
        {"Host": "[:"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://localhost.evil.example"},
    ],
    ids=str,
)
def test_a_request_of_a_website_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ProblemError) as refused:
        ask(**headers)

    assert refused.value.kind.status == 421
    assert "turnstile key create" in refused.value.detail


@pytest.mark.parametrize("hosts", [[], ["127.0.0.1", "127.0.0.1"]])
def test_a_request_without_one_host_is_refused(hosts: list[str]) -> None:
    with pytest.raises(ProblemError, match="not-local"):
        refuse_other_sites([(b"host", host.encode()) for host in hosts])
