"""Reads the keys that seal contents, once, at the start of a process that stores or reads contents."""

from functools import partial

from turnstile.config.settings import Settings
from turnstile.errors import SettingsError
from turnstile.sealing.contents import PLAIN, Contents

_VARIABLE = "TURNSTILE_SEALING_KEYS_FILE"


def read_contents(settings: Settings) -> Contents:
    """What seals and opens the contents of this process. Blocks for keys that KMS has sealed.

    Raises SettingsError for a file that is not as a whole valid.
    """
    file = settings.sealing_keys_file
    if file is None:
        return PLAIN
    # Imported here: processes without keys do without the library of the cipher.
    from turnstile.sealing.data_keys import parse_keys

    try:
        return Contents(parse_keys(file.read_text("utf-8-sig"), partial(_open_by_kms, settings.aws_region)))
    except OSError as error:
        raise SettingsError(
            f"{_VARIABLE}: {file} can't be read: {error.strerror}; correct the variable, or the file's rights"
        ) from None
    except UnicodeDecodeError:
        # Without the codec's error, which has the file.
        raise SettingsError(f"{_VARIABLE}: {file} is not UTF-8; save it in UTF-8") from None
    except ValueError as error:
        raise SettingsError(f"{_VARIABLE}: {file}: {error}") from None


def _open_by_kms(region: str | None, key_id: str, sealed: bytes) -> bytes:
    # Imported here: most files have no such key.
    from turnstile.backends.kms import open_data_key

    return open_data_key(region, key_id, sealed)
