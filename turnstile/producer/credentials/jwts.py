"""Who a JWT belongs to. Its issuer says so, by claims that the settings name."""

import hashlib
from typing import Any

import jwt

from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.config.jwt_settings import JwtSettings
from turnstile.producer.credentials.issuer_keys import IssuerKeys
from turnstile.producer.credentials.refusal import Reason, Refused
from turnstile.turn.identifiers import is_valid_id

LEEWAY_SECONDS = 30
"""By how much the clocks of the issuer and of this machine may differ."""

_UNREADABLE = (jwt.PyJWTError, ArithmeticError, RecursionError, TypeError, ValueError)
"""What PyJWT raises for a text that is no valid token: not only its own errors."""


def looks_like_jwt(text: str) -> bool:
    """Whether the text has the three parts of a JWT. No other credential has a dot."""
    return text.count(".") == 2


class Jwts:
    """Checks JWTs of one issuer."""

    def __init__(self, settings: JwtSettings, keys: IssuerKeys) -> None:
        self._settings = settings
        self._keys = keys

    async def check(self, text: str) -> Caller | Refused:
        """The caller with this token, or why it is refused. Raises IssuerUnavailableError."""
        try:
            header = jwt.get_unverified_header(text)
        except _UNREADABLE:
            return Refused(Reason.UNKNOWN)
        key_id = header.get("kid")
        # Before the look-up: nobody makes this process ask the issuer with a token that it would refuse anyway.
        if header.get("alg") not in self._settings.algorithms or not isinstance(key_id, str | None):
            return Refused(Reason.UNKNOWN)
        key = await self._keys.find(key_id)
        if key is None:
            return Refused(Reason.UNKNOWN)
        try:
            claims = self._verify(text, key)
        except jwt.ExpiredSignatureError:
            return Refused(Reason.EXPIRED)
        except _UNREADABLE:
            return Refused(Reason.UNKNOWN)
        return self._find_caller(claims)

    def _verify(self, text: str, key: jwt.PyJWK) -> dict[str, Any]:
        # With a PyJWK, PyJWT verifies by the key's own algorithm, and refuses a token that names another one.
        return jwt.decode(
            text,
            key,
            algorithms=self._settings.algorithms,
            issuer=self._settings.issuer,
            audience=self._settings.audience,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
        )

    def _find_caller(self, claims: dict[str, Any]) -> Caller | Refused:
        tenant_id = claims.get(self._settings.tenant_claim)
        if not isinstance(tenant_id, str) or not is_valid_id(tenant_id):
            return Refused(Reason.NO_TENANT)
        role = self._find_role(claims.get(self._settings.role_claim))
        if role is None:
            return Refused(Reason.NO_ROLE)
        # A subject may be an address of a person, which no log should have.
        subject = hashlib.sha256(f"{claims['iss']} {claims['sub']}".encode("utf-8", "surrogatepass")).hexdigest()
        return Caller(tenant_id, role, f"jwt:{subject[:16]}")

    def _find_role(self, claim: Any) -> Role | None:
        values = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
        known = self._settings.roles or {role.value: role for role in Role}
        found = [known[value] for value in values if isinstance(value, str) and value in known]
        return max(found, key=tuple(Role).index, default=None)
