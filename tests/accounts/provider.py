"""An OpenID Connect provider on a loopback port, which says what a test wants."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "shadowprice", "a secret of the client"


@cache
def first_key() -> RSAKey:
    """The key of every provider at first: to generate one takes longer than a login."""
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


@dataclass
class Provider:
    """The provider: its claims, its keys, and what it was asked."""

    issuer: str = ""
    key: RSAKey = field(default_factory=first_key)
    signs_with: RSAKey | None = None
    """Another key than the published one."""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "7", "preferred_username": "bella"})
    """Claims of the person; None leaves one out of the token."""
    token: str | None = None
    """The ID token, if it is not made of the claims."""
    has_id_token: bool = True
    says_issuer: str | None = None
    """The issuer in the provider's own document, if it is another one."""
    slash: str = ""
    """What the provider's own document and its tokens have behind the issuer."""
    asked: dict[str, str] = field(default_factory=dict)
    """The query with which a browser came last."""
    tokens: list[dict[str, str]] = field(default_factory=list)
    """Requests for tokens."""

    def document(self) -> dict[str, Any]:
        """The provider's own document."""
        return {
            "issuer": self.says_issuer or f"{self.issuer}{self.slash}",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }

    def logs_in(self, address: str) -> dict[str, str]:
        """Let the person log in who was sent to this address; the query with which the browser comes back."""
        self.asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        return {"code": "a-code", "state": self.asked["state"]}

    def id_token(self) -> str:
        """The ID token."""
        if self.token is not None:
            return self.token
        now = int(time.time())
        issuer = f"{self.issuer}{self.slash}"
        claims = {"iss": issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": self.asked["nonce"]}
        claims = {name: value for name, value in {**claims, **self.claims}.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signs_with or self.key)

    def answer(self, sent: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The answer to a request for a token: the secret of PKCE must be that of the browser's request."""
        self.tokens.append(sent)
        digest = urlsafe_b64encode(sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if sent["code"] != "a-code" or digest != self.asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        token = {"access_token": "an access token", "token_type": "Bearer", "expires_in": 300}
        return 200, {**token, "id_token": self.id_token()} if self.has_id_token else token


@contextmanager
def provider() -> Iterator[Provider]:
    """A provider that answers while the block runs."""
    found = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            documents = {"/.well-known/openid-configuration": found.document(), "/keys": keys()}
            self.say(200, documents[self.path])

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.say(*found.answer({name: values[0] for name, values in parse_qs(text).items()}))

        def say(self, status: int, document: dict[str, Any]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    def keys() -> dict[str, Any]:
        return {"keys": [found.key.as_dict(private=False)]}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    found.issuer = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
