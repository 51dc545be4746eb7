"""The file of keys that TURNSTILE_SEALING_KEYS_FILE names: read once, as a whole, or the process does not start."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.kms import running_kms
from tests.support.sealing import contents, key_text
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.errors import SettingsError
from turnstile.producer.app import create_app
from turnstile.sealing.contents import PLAIN
from turnstile.sealing.place import Place

HERE = Place("t", "s", None, "item:fact:k")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def write(file: Path, *, sealed: str, key_id: str) -> None:
    """A file with a key of KMS."""
    file.write_text(json.dumps({"seal_with": key_id, "keys": {key_id: {"kms": sealed}}}))


def of(file: Path) -> Settings:
    return Settings(sealing_keys_file=file, queues=({"name": "turns"},), aws_region="us-east-1")  # type: ignore[arg-type]


def test_without_the_variable_nothing_is_sealed() -> None:
    assert read_contents(Settings()) is PLAIN


def test_a_process_seals_with_the_keys_of_its_file(file: Path) -> None:
    file.write_text(key_text())

    assert contents("k1").open(read_contents(of(file)).seal("hi", HERE), HERE) == "hi"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "can't be read: No such file or directory; correct the variable"),
        (b"\xff\xfe{}", "is not UTF-8; save it in UTF-8"),
        (b"{}", 'must be an object with exactly "seal_with" and "keys"'),
        (b'{"seal_with": "a", "keys": {"a": "c2VjcmV0"}}', "key a must be 32 random bytes in base64"),
    ],
)
def test_a_bad_file_stops_the_start_and_is_not_quoted(file: Path, given: bytes | None, why: str) -> None:
    if given is not None:
        file.write_bytes(given)

    with pytest.raises(SettingsError) as caught:
        create_app(of(file))

    assert str(caught.value).startswith("TURNSTILE_SEALING_KEYS_FILE: ")
    assert why in str(caught.value)
    assert "c2VjcmV0" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.fixture
async def kms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    async with running_kms(tmp_path) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield boto3.client("kms", region_name="us-east-1")


async def test_a_key_that_kms_has_sealed_is_opened_at_the_start(kms: Any, file: Path) -> None:
    master = kms.create_key()["KeyMetadata"]["KeyId"]
    made = kms.generate_data_key_without_plaintext(
        KeyId=master, KeySpec="AES_256", EncryptionContext={"turnstile": "k9"}
    )
    sealed = base64.b64encode(made["CiphertextBlob"]).decode()
    write(file, sealed=sealed, key_id="k9")

    one, other = read_contents(of(file)), read_contents(of(file))

    assert other.open(one.seal("hi", HERE), HERE) == "hi"
    assert one.sealing_key_id == "k9"

    # Under another id it is not opened: the id is part of what KMS has sealed.
    write(file, sealed=sealed, key_id="k8")
    with pytest.raises(
        SettingsError, match=r"KMS does not open key k8: InvalidCiphertextException; allow this process"
    ):
        read_contents(of(file))


async def test_a_process_that_may_not_use_the_key_does_not_start(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    write(file, sealed="c2VhbGVk", key_id="k9")

    with pytest.raises(SettingsError, match=r"KMS does not open key k9: EndpointConnectionError"):
        read_contents(of(file))
