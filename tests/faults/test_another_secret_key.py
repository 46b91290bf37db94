"""Another secret key: what the former one has signed works while it is a fallback, and not after."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import requests

from tests.conftest import Tables
from tests.faults.installation import read, shell, start_web
from tests.processes import free_port, python_env

pytestmark = pytest.mark.slow

FORMER: Final = {"SHADOWPRICE_SECRET_KEY": "the former key of this test is long enough for any check"}
LATTER: Final = {"SHADOWPRICE_SECRET_KEY": "the latter key of this test is long enough for any check"}
BOTH: Final = LATTER | {"SHADOWPRICE_SECRET_KEY_FALLBACKS": FORMER["SHADOWPRICE_SECRET_KEY"]}
NO_WORKER: Final = {"REDIS_URL": "redis://127.0.0.1:1/0", "SHADOWPRICE_EMAIL_URL": "smtp://127.0.0.1:1"}
SIGN: Final = """
import json
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.test import Client
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from accounts import invitations, teams
from accounts.models import Role
from accounts.tokens import NewToken, issue
from auctions.models import Webhook
from auctions.webhooks import signing
from cluster import clock
from execution.models import Generation, Program, Training
from execution.tokens import token_of
from tests.auctions.worlds import make_market, submit

alice = User.objects.create_user("alice", "alice@example.org", "only for tests")
cookies = []
for _ in range(2):
    client = Client()
    client.force_login(alice)
    cookies.append(client.cookies["sessionid"].value)
market, now = make_market(), clock.now()
program = Program.objects.create(cluster=market.cluster, name="t", arguments=["true"], working_directory="/")
training = Training.objects.create(bid=submit(market, alice), program=program)
generation = Generation.objects.create(
    training=training, number=0, fence=1, allocation=[], slot=0, until=2e9, created_at=now
)
webhook = Webhook.objects.create(
    owner=alice, name="w", url="https://example.org/", secret=signing.new_secret(), created_at=now
)
team = teams.create_team("a", "A", administrator=alice)
print(json.dumps({
    "cookies": cookies,
    "invitation": invitations.invite(team, Role.BIDDER, days=1, by=alice).link_text,
    "reset": f"{urlsafe_base64_encode(force_bytes(alice.pk))}/{default_token_generator.make_token(alice)}",
    "program": token_of(generation),
    "user": issue(alice, NewToken("script")).text,
    "webhook": signing.secret_of(webhook.secret),
}))
"""
SECRET: Final = """
import json
from auctions.models import Webhook
from auctions.webhooks import signing
try:
    print(json.dumps(signing.secret_of(Webhook.objects.get().secret)))
except signing.SecretUnreadable:
    print("null")
"""
ENCRYPT: Final = "from django.core.management import call_command; call_command('encrypt_again')"


@dataclass
class Installation:
    """A web process with one environment, and what the former key has signed."""

    address: str
    env: dict[str, str]
    signed: dict[str, Any]

    def accepts(self, *, cookie: int) -> dict[str, bool]:
        """What still works, of the two sessions the one with this number."""
        with requests.Session() as session:
            session.trust_env = False
            kept = {"sessionid": self.signed["cookies"][cookie]}
            page = session.get(f"{self.address}/account/tokens/", cookies=kept, allow_redirects=False, timeout=60)
            self.signed["cookies"][cookie] = page.cookies.get("sessionid", kept["sessionid"])
        return {
            "session": page.status_code == 200,
            "invitation": self._get(f"/invitations/{self.signed['invitation']}/").status_code == 200,
            "password": "Set the password" in self._get(f"/password/reset/{self.signed['reset']}/").text,
            "program": self._report().status_code == 200,
            "webhook": read(SECRET, self.env) == self.signed["webhook"],
            "token of a user": self._get("/api/v1/clusters", token=self.signed["user"]).status_code == 200,
        }

    def _get(self, path: str, *, token: str = "") -> requests.Response:
        with requests.Session() as session:
            session.trust_env = False
            headers = {"Authorization": f"Token {token}"} if token else {}
            return session.get(f"{self.address}{path}", headers=headers, timeout=60)

    def _report(self) -> requests.Response:
        headers = {"Authorization": f"Token {self.signed['program']}"}
        body = {"steps": [{"step": 1}]}
        return requests.post(f"{self.address}/api/v1/progress", json=body, headers=headers, timeout=60)


@contextmanager
def served(directory: Path, signed: dict[str, Any], keys: dict[str, str]) -> Iterator[Installation]:
    env, port = python_env(directory, **NO_WORKER, **keys), free_port()
    web = start_web(port, env, directory / f"{port}.log")
    try:
        yield Installation(f"http://127.0.0.1:{port}", env, signed)
    finally:
        web.end()


def test_what_the_former_key_has_signed_works_with_it_as_a_fallback_and_stops_without(
    tmp_path: Path, make_tables: Tables
) -> None:
    env = python_env(tmp_path, **NO_WORKER, **FORMER)
    make_tables(env)
    signed = read(SIGN, env)
    everything = dict.fromkeys(("session", "invitation", "password", "program", "webhook", "token of a user"), True)
    nothing = dict.fromkeys(everything, False) | {"token of a user": True}  # nothing signs it
    with served(tmp_path, signed, BOTH) as installation:
        assert installation.accepts(cookie=0) == everything
        shell(ENCRYPT, installation.env)
    with served(tmp_path, signed, LATTER) as installation:
        # The session that was used meanwhile is signed with the new key, and the secret encrypted with it.
        assert installation.accepts(cookie=0) == nothing | {"session": True, "webhook": True}
        assert installation.accepts(cookie=1) == nothing | {"webhook": True}
