"""An issuer of JWTs on loopback: it signs tokens, and publishes its public keys."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://issuer.example/"
AUDIENCE = "turnstile"

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
RSA = rsa.generate_private_key(65537, 2048)


def make_key(algorithm: str = "ES256") -> Private:
    if algorithm[:2] in {"RS", "PS"}:
        return RSA
    return ed25519.Ed25519PrivateKey.generate() if algorithm == "EdDSA" else ec.generate_private_key(ec.SECP256R1())


def publish(key: Private, key_id: str | None, algorithm: str = "ES256") -> dict[str, Any]:
    """The key's entry in the JWK set."""
    written = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key())
    named = {} if key_id is None else {"kid": key_id}
    return {**json.loads(written), "use": "sig", "alg": algorithm, **named}


class Issuer:
    """`published` is what its URL answers; `status` is the answer's. `asked` counts the requests."""

    def __init__(self) -> None:
        self.keys: dict[str, Private] = {"first": make_key()}
        self.published: list[dict[str, Any]] = [publish(self.keys["first"], "first")]
        self.status = 200
        self.body: bytes | None = None
        self.asked = 0
        self.url = ""

    def sign(self, key_id: str | None = "first", algorithm: str = "ES256", *, key: Any = None, **claims: Any) -> str:
        """A token that is valid for a minute, but for `claims`: None leaves a claim out."""
        now = int(time.time())
        given = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 60, "tenant": "acme", "role": "submit",
            **claims,
        }  # fmt: skip
        present = {name: value for name, value in given.items() if value is not None}
        headers = {} if key_id is None else {"kid": key_id}
        return jwt.encode(present, self.keys["first"] if key is None else key, algorithm, headers=headers)

    async def answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        body = self.body if self.body is not None else json.dumps({"keys": self.published}).encode()
        return web.Response(body=body, status=self.status, headers={"Location": "/elsewhere"})


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    app = web.Application()
    app.router.add_get("/jwks", issuer.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}/jwks"
    yield issuer
    await runner.cleanup()
