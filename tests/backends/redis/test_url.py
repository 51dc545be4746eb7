"""What a Redis URL says, and what it may not say."""

import pytest

from turnstile.backends.redis.url import RedisKind, read
from turnstile.config.load_settings import load
from turnstile.errors import SettingsError


def test_sentinels_are_named_with_the_primary_and_a_database() -> None:
    found = read("redis+sentinel://app:p%40ss@one:26380,two,[::1]:26381/mymaster/2?sentinel_password=other")

    assert (found.kind, found.tls, found.service) == (RedisKind.SENTINEL, False, "mymaster")
    assert found.addresses == (("one", 26380), ("two", 26379), ("::1", 26381))
    assert found.options == {"username": "app", "password": "p@ss", "db": 2}
    assert found.sentinel_options == {"password": "other"}


def test_a_cluster_is_named_by_some_of_its_nodes() -> None:
    found = read("rediss+cluster://:secret@one:7000,two?ssl_ca_certs=/etc/ca.pem")

    assert (found.kind, found.tls, found.addresses) == (RedisKind.CLUSTER, True, (("one", 7000), ("two", 6379)))
    assert found.options == {"password": "secret", "ssl_ca_certs": "/etc/ca.pem"}


def test_a_single_server_is_left_to_the_library_to_read() -> None:
    assert read("rediss://app:secret@cache:6380/1").kind is RedisKind.SINGLE


@pytest.mark.parametrize("scheme", ["rediss://cache", "rediss+cluster://cache", "rediss+sentinel://cache/name"])
@pytest.mark.parametrize("option", ["ssl_cert_reqs=none", "ssl_cert_reqs=optional", "ssl_check_hostname=false"])
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
        ("redis://[one", "not a Redis URL"),
    ],
)
def test_what_makes_no_sense_is_refused_without_quoting_it(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        read(url.replace("://", "://a:pass-word@"))

    assert "pass-word" not in str(refused.value)


def test_a_certificate_file_that_is_not_there_is_refused_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "rediss://cache?ssl_ca_certs=/nowhere/ca.pem")

    with pytest.raises(SettingsError, match="REDIS_URL: names a certificate or key file that is not there"):
        load()
