"""The settings of a client of the API, without those of a process that serves it."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from turnstile.config import validators
from turnstile.errors import SettingsError

PREFIX = "TURNSTILE_"


class ApiAccess(BaseSettings):
    """Two of the `Settings`, read on their own: for an application, variables such as DATABASE_URL may mean something else."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    api_url: Annotated[str, AfterValidator(validators.check_api_url)] = "http://127.0.0.1:8080"
    api_key: Annotated[str | None, AfterValidator(validators.check_api_key), Field(repr=False)] = None


def read_api_access() -> ApiAccess:
    """Raises SettingsError with every invalid setting in one message."""
    try:
        return ApiAccess()
    except ValidationError as error:
        faults = (f"{PREFIX}{str(fault['loc'][0]).upper()}: {fault['msg']}" for fault in error.errors())
        raise SettingsError("; ".join(faults).replace("Value error, ", "")) from None
