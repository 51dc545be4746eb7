"""Redis URLs: what they name, and which are refused."""

import pytest

from turnstile.backends.redis.redis_url import RedisKind, read
from turnstile.config.config_file import load
from turnstile.errors import SettingsError


def test_a_sentinel_url_names_sentinels_primary_and_database() -> None:
    found = read("redis+sentinel://app:p%40ss@one:26380,two,[::1]:26381/mymaster/2?sentinel_password=other")

    assert (found.kind, found.tls, found.service) == (RedisKind.SENTINEL, False, "mymaster")
    assert found.addresses == (("one", 26380), ("two", 26379), ("::1", 26381))
    assert found.options == {"username": "app", "password": "p@ss", "db": 2}
    assert found.sentinel_options == {"password": "other"}


def test_a_cluster_url_names_some_nodes() -> None:
    found = read("rediss+cluster://:secret@one:7000,two?ssl_ca_certs=/etc/ca.pem")

    assert (found.kind, found.tls, found.addresses) == (RedisKind.CLUSTER, True, (("one", 7000), ("two", 6379)))
    assert found.options == {"password": "secret", "ssl_ca_certs": "/etc/ca.pem"}


@pytest.mark.parametrize("url", ["redis://cache", "rediss://a:b@cache:6380/1", "unix:///run/redis.sock", "redis:///1"])
def test_other_forms_name_a_single_server(url: str) -> None:
    assert read(url).kind is RedisKind.SINGLE


@pytest.mark.parametrize("scheme", ["rediss://cache", "rediss+cluster://cache", "rediss+sentinel://cache/name"])
@pytest.mark.parametrize("option", ["ssl_cert_reqs=none", "ssl_check_hostname=false"])
def test_tls_without_its_checks_is_refused(scheme: str, option: str) -> None:
    with pytest.raises(ValueError, match=f"must not turn off {option.partition('=')[0]}"):
        read(f"{scheme}?{option}")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis://cache?ssl_ca_certs=/etc/ca.pem", "options of TLS without TLS"),
        ("redis+sentinel://one:26379", "primary's name"),
        ("redis+sentinel://one:26379/name/first", "primary's name"),
        ("redis+cluster://one/1", "only one"),
        ("redis+cluster://one:port", "host:port"),
        ("redis+cluster://", "host:port"),
        ("redis+cluster://one?ssl_ca_cert=x", "unknown options|without TLS"),
        ("rediss+cluster://one?ca=x", "unknown options: ca"),
        ("redis+unix://one", "not a Redis URL"),
        ("redis://one:port", "not a Redis URL"),
        ("redis://[one", "not a Redis URL"),
    ],
)
def test_an_invalid_url_is_refused_and_not_quoted(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        read(url.replace("://", "://a:pass-word@"))

    assert "pass-word" not in str(refused.value)


def test_a_certificate_file_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "rediss://cache?ssl_ca_certs=/nowhere/ca.pem")

    with pytest.raises(SettingsError, match="REDIS_URL: names a certificate or key file that does not exist"):
        load()
