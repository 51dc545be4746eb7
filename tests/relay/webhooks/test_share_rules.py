"""Which webhooks get a place, and when the others come back."""

from collections.abc import Sequence
from itertools import count
from uuid import UUID

import pytest

from turnstile.relay.webhooks.shares import LINE_SECONDS, PER_HOST, PER_TENANT, WebhookShares
from turnstile.statements.webhooks import DueWebhook

_numbers = count(1)


def due(host: str, tenant_id: str = "t") -> DueWebhook:
    url = f"https://{host}/{next(_numbers)}"
    return DueWebhook(turn_id=UUID(int=next(_numbers)), generation=1, url=url, tenant_id=tenant_id)


def delays(put_off: Sequence[tuple[DueWebhook, float]]) -> list[float]:
    return [seconds for _, seconds in put_off]


@pytest.fixture
def shares() -> WebhookShares:
    """On a clock that stands still."""
    return WebhookShares(clock=lambda: 100.0)


def test_a_host_gets_its_share_and_the_rest_is_put_off(shares: WebhookShares) -> None:
    owed = [due("a.example.com") for _ in range(PER_HOST + 2)]

    choice = shares.choose(owed, 2 * PER_TENANT)

    assert choice.taken == owed[:PER_HOST]
    assert [one for one, _ in choice.put_off] == owed[PER_HOST:]
    assert delays(choice.put_off) == pytest.approx([LINE_SECONDS, 2 * LINE_SECONDS])


def test_whatever_the_address_says_behind_the_host_it_is_the_same_host(shares: WebhookShares) -> None:
    names = (
        "a.example.com",
        "A.EXAMPLE.COM",
        "a.example.com:443",
        "a.example.com:8443",
        "a.example.com?x",
        "a.example.com/x",
    )

    assert len(shares.choose([due(name) for name in names * PER_HOST], 2 * PER_TENANT).taken) == PER_HOST


def test_a_tenant_gets_its_share_whatever_hosts_it_names(shares: WebhookShares) -> None:
    owed = [due(f"h{number}.example.com") for number in range(PER_TENANT + 1)]
    another = due("another.example.com", "u")

    choice = shares.choose([*owed, another], 2 * PER_TENANT)

    assert choice.taken == [*owed[:PER_TENANT], another]
    assert [one for one, _ in choice.put_off] == owed[PER_TENANT:]


def test_what_is_under_way_counts_until_it_has_ended(shares: WebhookShares) -> None:
    under_way = [due("a.example.com") for _ in range(PER_HOST)]
    for one in under_way:
        shares.begin(one)
    assert shares.choose([due("a.example.com")], 2 * PER_TENANT).taken == []

    shares.end(under_way[0])

    assert len(shares.choose([due("a.example.com"), due("a.example.com")], 2 * PER_TENANT).taken) == 1


def test_whose_host_has_the_fewest_under_way_comes_first(shares: WebhookShares) -> None:
    shares.begin(due("a.example.com"))
    older, newer = due("a.example.com"), due("b.example.com")

    choice = shares.choose([older, newer], 1)

    assert (choice.taken, choice.put_off) == ([newer], [])


def test_who_comes_later_stands_behind_the_end_of_the_line(shares: WebhookShares) -> None:
    for _ in range(PER_HOST):
        shares.begin(due("a.example.com"))
    shares.choose([due("a.example.com") for _ in range(10)], 2 * PER_TENANT)

    choice = shares.choose([due("a.example.com"), due("b.example.com")], 2 * PER_TENANT)

    assert delays(choice.put_off) == pytest.approx([11 * LINE_SECONDS])


def test_one_hosts_line_delays_nobody_in_anothers(shares: WebhookShares) -> None:
    for host in ("a.example.com", "b.example.com"):
        for number in range(PER_HOST):
            shares.begin(due(host, f"{host}{number}"))
    shares.choose([due("a.example.com") for _ in range(1000)], 2 * PER_TENANT)

    assert delays(shares.choose([due("b.example.com")], 2 * PER_TENANT).put_off) == pytest.approx([LINE_SECONDS])


def test_a_line_that_has_come_back_begins_anew() -> None:
    now = [100.0]
    shares = WebhookShares(clock=lambda: now[0])
    for _ in range(PER_HOST):
        shares.begin(due("a.example.com"))
    shares.choose([due("a.example.com") for _ in range(10)], 2 * PER_TENANT)

    now[0] += 60

    assert delays(shares.choose([due("a.example.com")], 2 * PER_TENANT).put_off) == pytest.approx([LINE_SECONDS])


def test_an_address_that_cannot_be_read_is_a_host_like_any_other(shares: WebhookShares) -> None:
    assert len(shares.choose([due("no host") for _ in range(PER_HOST + 1)], 2 * PER_TENANT).taken) == PER_HOST
