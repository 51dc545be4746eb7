"""What the settings say of a wrong one."""

import pytest

from turnstile.config.config_file import load
from turnstile.errors import SettingsError


def refusal(**overrides: object) -> str:
    with pytest.raises(SettingsError) as refused:
        load(**overrides)
    return str(refused.value)
