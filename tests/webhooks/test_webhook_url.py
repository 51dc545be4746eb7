"""Where a completion webhook may go: one address of each hostile kind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from turnstile.webhooks.webhook_url import WebhookTarget, is_allowed, is_public, is_rule, parse_webhook_url

HOSTILE = [
    "",
    "hooks.example.com",
    "//hooks.example.com/",
    "http://hooks.example.com/",
    "file:///etc/passwd",
    "https://",
    "https:hooks.example.com",
    "https://localhost/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://0x7f000001/",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::1]/",
    "https://[fe80::1%25eth0]/",
    "https://user@hooks.example.com/",
    "https://user:secret@hooks.example.com/",
    "https://hooks.example.com@169.254.169.254/",
    "https://169.254.169.254#@hooks.example.com/",
    "https://hooks.example.com\\@evil.example.org/",
    "https://hooks.example.com/#fragment",
    "https://hooks.example.com/#",
    "https://hooks.example.com./",
    "https://.example.com/",
    "https://-hooks.example.com/",
    "https://hooks.example.com:0/",
    "https://hooks.example.com:65536/",
    "https://hooks.example.com:443:443/",
    "https://hooks%2eexample.com/",
    "https://hooks。example.com/",
    "https://hooks.example.com/\r\nX-Injected: 1",
    "https://hooks.example.com/a b",
    " https://hooks.example.com/",
    "https://hooks.example.com/\t",
    "https://hooks.example.com/\x00",
    "https://hooks.example.com/\ud800",
    f"https://hooks.example.com/{'a' * 2048}",
    f"https://{'a.' * 130}com/",
]

REFUSED = [
    "0.0.0.1", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254", "169.254.170.2",
    "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a9fe:a9fe", "100::1", "fc00::1", "fd00:ec2::254",
    "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1",
    "", "nonsense", "127.1", "0x7f000001",
]  # fmt: skip

GOOD = {
    "https://hooks.example.com": WebhookTarget("hooks.example.com", 443, "/"),
    "HTTPS://Hooks.Example.COM/A/b?c=d&e": WebhookTarget("hooks.example.com", 443, "/A/b?c=d&e"),
    "https://hooks.example.com:8443/x": WebhookTarget("hooks.example.com", 8443, "/x"),
    "https://xn--hks-sna.example.com?x=1": WebhookTarget("xn--hks-sna.example.com", 443, "/?x=1"),
}


@pytest.mark.parametrize("url", HOSTILE)
def test_a_hostile_address_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match=r"^must") as refused:
        parse_webhook_url(url)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", GOOD)
def test_a_good_address_is_parsed(url: str) -> None:
    assert parse_webhook_url(url) == GOOD[url]


@settings(max_examples=50)
@given(some.text())
def test_a_parsed_address_is_a_name_and_has_no_line_break(text: str) -> None:
    try:
        target = parse_webhook_url(f"https://{text}")
    except ValueError:
        return
    assert target.path.startswith("/")
    assert target.path.isascii()
    assert not set("\r\n \t") & set(target.path + target.authority)
    assert not is_public(target.host)


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_outside_the_public_internet_is_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450::1"])
def test_an_address_of_the_public_internet_is_accepted(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("rule", "url", "allowed"),
    [
        ("hooks.example.com", "https://hooks.example.com/x", True),
        ("Hooks.Example.com", "https://hooks.example.com/x", True),
        ("hooks.example.com", "https://evil.hooks.example.com/", False),
        ("hooks.example.com", "https://hooks.example.com.evil.org/", False),
        ("hooks.example.com", "https://hooks.example.com:8443/", False),
        ("hooks.example.com:8443", "https://hooks.example.com:8443/", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://evilexample.com/", False),
        ("*", "https://anything.org/", True),
        ("*", "https://anything.org:25/", False),
    ],
)
def test_a_rule_allows_what_it_names(rule: str, url: str, allowed: bool) -> None:
    assert is_rule(rule.lower())
    assert is_allowed(parse_webhook_url(url), (rule,)) is allowed


def test_without_rules_nothing_is_allowed() -> None:
    assert not is_allowed(parse_webhook_url("https://hooks.example.com/"), ())


@pytest.mark.parametrize("rule", ["", "localhost", "https://a.example.com", "*.com:x", "a.*.com", "10.0.0.1", "*x.com"])
def test_an_invalid_rule_is_recognised(rule: str) -> None:
    assert not is_rule(rule)
