"""Which JWTs the API accepts, and what their claims mean."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from turnstile.access.role import Role
from turnstile.config.validators import LOCAL_HOSTS

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip
"""Those with a public key. A secret that both sides share would make a verifier an issuer."""

Name = Annotated[str, Field(min_length=1, max_length=500)]


def _check_jwks_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.port != 0 and (
            (parts.scheme == "https" and bool(parts.hostname))
            or (parts.scheme == "http" and parts.hostname in LOCAL_HOSTS)
        )
    except ValueError:
        fits = False
    if not fits:
        raise ValueError("must be https://HOST/PATH: who can change the keys on their way can be anybody")
    return url


class JwtSettings(BaseModel):
    """The value of TURNSTILE_JWT."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, extra="forbid")

    issuer: Name
    """The `iss` that a token must have."""
    audience: Name
    """The `aud` that a token must have, or have among others."""
    jwks_url: Annotated[str, AfterValidator(_check_jwks_url)]
    """URL of the issuer's public keys (a JWK set)."""
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256")
    """The algorithms that a token may be signed with."""
    tenant_claim: Name = "tenant"
    """The claim that names the tenant."""
    role_claim: Name = "role"
    """The claim that names the role: a text, several in one text with spaces between, or a list. The highest role counts."""
    roles: dict[str, Role] = {}
    """Which role a value of that claim is: `{"chat.write": "submit"}`. Left out: the values are the roles' names."""
