"""One attempt: signature, redirects, time limit, and what is read of an answer."""

import base64
import hashlib
import hmac
import socket
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from io import StringIO
from ipaddress import ip_address
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.apps import apps
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.utils import timezone
from django.utils.crypto import salted_hmac

from auctions.models import Webhook
from auctions.models.webhooks import LONGEST_SECRET
from auctions.webhooks import sending, signing
from auctions.webhooks.hooks import Made, WebhookRequest, create, encrypt_again, rotate
from auctions.webhooks.sending import Outcome, send
from tests.auctions.webhooks.receiver import Receiver, receiver


def verified(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """As a receiver does, by the text of the convention."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split()


def test_a_signature_is_that_of_the_convention_s_example() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    found = signing.signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_is_signed_with_the_secret_that_was_shown(made: Made) -> None:
    headers = signing.signed(made.webhook, "msg_1", b"{}", timezone.now())
    assert verified(made.secret, headers, b"{}")
    assert not verified(made.secret, headers, b"{ }")
    assert not verified(made.secret, {**headers, "webhook-timestamp": "1"}, b"{}")
    assert not verified(made.secret, {**headers, "webhook-id": "msg_2"}, b"{}")
    assert made.secret not in str(vars(made.webhook))


def test_a_secret_is_replaced_with_an_overlap(made: Made) -> None:
    new, now = rotate(made.webhook, overlap_s=60), timezone.now()
    assert new.webhook.old_until is not None
    for at, old in ((now, True), (new.webhook.old_until, False)):
        headers = signing.signed(new.webhook, "msg_1", b"{}", at)
        assert (verified(new.secret, headers, b"{}"), verified(made.secret, headers, b"{}")) == (True, old)
    at_once = rotate(Webhook.objects.get())
    assert not verified(new.secret, signing.signed(at_once.webhook, "msg_1", b"{}", now), b"{}")


def test_another_secret_key_changes_no_secret(made: Made, settings: LazySettings) -> None:
    second, now = rotate(made.webhook, overlap_s=60), timezone.now()
    first, settings.SECRET_KEY = settings.SECRET_KEY, "another key"
    settings.SECRET_KEY_FALLBACKS = [first]
    for fallbacks in ([first], []):
        settings.SECRET_KEY_FALLBACKS = fallbacks
        headers = signing.signed(Webhook.objects.get(), "msg_1", b"{}", now)
        assert verified(second.secret, headers, b"{}")
        assert verified(made.secret, headers, b"{}")
        call_command("encrypt_again", stdout=(said := StringIO()))
        assert said.getvalue() == "Secrets of 1 webhook are encrypted with the present key.\n"
    settings.SECRET_KEY = first  # which is needed no longer
    with pytest.raises(signing.SecretUnreadable):
        signing.signed(Webhook.objects.get(), "msg_1", b"{}", now)


def test_secrets_of_a_lost_key_are_counted_and_stay(made: Made, settings: LazySettings) -> None:
    stored, settings.SECRET_KEY = made.webhook.secret, "another key"
    other = create(made.webhook.owner, WebhookRequest("other", made.webhook.url))
    assert encrypt_again() == (1, 1)
    with pytest.raises(CommandError, match="got none for 1 webhook;"):
        call_command("encrypt_again", stdout=StringIO())
    assert Webhook.objects.get(pk=made.webhook.pk).secret == stored
    now = timezone.now()
    assert verified(other.secret, signing.signed(Webhook.objects.get(name="other"), "msg_1", b"{}", now), b"{}")
    new = rotate(Webhook.objects.get(pk=made.webhook.pk))
    assert verified(new.secret, signing.signed(new.webhook, "msg_1", b"{}", timezone.now()), b"{}")


def test_a_secret_of_a_lost_key_is_replaced_without_an_overlap(made: Made, settings: LazySettings) -> None:
    """The page replaces it with one, and nothing could be signed with the old secret."""
    settings.SECRET_KEY = "another key"
    new = rotate(made.webhook, overlap_s=86_400)
    headers = signing.signed(Webhook.objects.get(), "msg_1", b"{}", timezone.now())
    assert headers["webhook-signature"].count("v1,") == 1
    assert verified(new.secret, headers, b"{}")
    assert encrypt_again() == (1, 0)


def test_secrets_are_stored_encrypted(made: Made) -> None:
    plain = base64.b64decode(made.secret.removeprefix(signing.PREFIX))
    stored = Webhook.objects.get().secret
    assert len(plain) == signing.LENGTH
    assert len(stored) <= LONGEST_SECRET
    assert plain not in base64.urlsafe_b64decode(stored)


@pytest.mark.thorough
def test_the_migration_keeps_secrets_that_were_computed(db: None, made: Made, settings: LazySettings) -> None:
    """The functions that it runs, on rows as they were before: a salt and no ciphertext."""
    salt, old_salt = "5a" * 32, "a5" * 32
    Webhook.objects.update(secret=salt, old_secret=old_salt, old_until=timezone.now() + timedelta(days=1))
    import_module("auctions.migrations.0010_stored_webhook_secrets").encrypt(apps, None)
    headers = signing.signed(Webhook.objects.get(), "msg_1", b"{}", timezone.now())
    for before in (salt, old_salt):
        computed = salted_hmac("shadowprice.webhook", before, algorithm="sha256").digest()
        assert verified(signing.PREFIX + base64.b64encode(computed).decode(), headers, b"{}")


def test_a_message_is_posted_as_json(there: Receiver) -> None:
    assert send(there.url, {"webhook-id": "msg_1"}, b'{"a":1}') == Outcome(204)
    [(path, headers, body)] = there.received
    assert (path, body, headers["webhook-id"]) == ("/hook", b'{"a":1}', "msg_1")
    assert headers["content-type"] == "application/json"


def test_a_redirect_is_not_followed(there: Receiver) -> None:
    there.status, there.headers = 307, {"Location": there.url}
    assert send(there.url, {}, b"{}") == Outcome(307, "redirects are not followed")
    assert len(there.received) == 1


@pytest.mark.parametrize(
    ("status", "problem"),
    [(200, ""), (299, ""), (400, "expected a status of 200 to 299, got 400")]
    + [(status, "redirects are not followed") for status in (300, 399)],
)
def test_only_an_answer_of_200_to_299_is_a_success(there: Receiver, status: int, problem: str) -> None:
    there.status = status
    outcome = send(there.url, {}, b"{}")
    assert (outcome.answer, outcome.is_success, outcome.problem) == (status, not problem, problem)


def test_a_connection_is_waited_for_no_longer_than_its_own_limit(
    there: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, waited = httpcore.SyncBackend.connect_tcp, list[float]()

    def connected(self: httpcore.SyncBackend, host: str, port: int, timeout: float) -> httpcore.NetworkStream:
        waited.append(timeout)
        return connect(self, host, port, timeout)

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connected)
    assert send(there.url, {}, b"{}").is_success
    monkeypatch.setattr(sending, "TIME_LIMIT_S", sending.CONNECT_S / 2)
    assert send(there.url, {}, b"{}").is_success
    assert waited[0] == sending.CONNECT_S
    assert 0 < waited[1] <= sending.CONNECT_S / 2


def test_no_proxy_of_the_environment_is_used(there: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert send(there.url, {}, b"{}").is_success


def listening(answer: Callable[[socket.socket], None]) -> str:
    """The address of a server that does this with its first connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(65536)
            answer(connection)

    Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}/"


def drip(connection: socket.socket) -> None:
    """Begin an answer that never ends: each byte comes in time for a limit of single reads."""
    try:
        for byte in b"HTTP/1.1 200 OK\r\nA: " + b"a" * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
    except OSError:
        pass


def test_a_receiver_that_answers_byte_by_byte_is_left(allowed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "TIME_LIMIT_S", 0.2)
    assert send(listening(drip), {}, b"{}").problem.startswith("no answer within")


def test_what_is_no_http_is_no_success(allowed: None) -> None:
    assert send(listening(lambda one: one.sendall(b"hello\r\n\r\n")), {}, b"{}").problem == "the answer is not HTTP"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 20"])
def test_a_receiver_that_closes_the_connection_before_its_answer_is_said_to(allowed: None, said: bytes) -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass  # a connection that is closed with unread bytes is reset

    assert send(listening(hang_up), {}, b"{}").problem == "no connection: refused or closed"


def test_an_endless_body_is_not_read_and_the_connection_is_closed(allowed: None) -> None:
    ended: SimpleQueue[OSError] = SimpleQueue()

    def flood(connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            while True:
                connection.send(bytes(100_000))
        except OSError as error:
            ended.put(error)

    assert send(listening(flood), {}, b"{}") == Outcome(200)
    assert isinstance(ended.get(timeout=10), ConnectionError)


@pytest.mark.parametrize(("answers", "tried"), [(2, 2), (3, 3), (4, 3), (9, 3)])
def test_of_a_host_s_addresses_the_next_is_tried_and_three_at_most(
    there: Receiver, monkeypatch: pytest.MonkeyPatch, answers: int, tried: int
) -> None:
    connect, addresses = httpcore.SyncBackend.connect_tcp, list[str]()

    def connected(self: httpcore.SyncBackend, host: str, port: int, timeout: float) -> httpcore.NetworkStream:
        addresses.append(host)
        if len(addresses) < answers:
            raise httpcore.ConnectTimeout if len(addresses) == 1 else httpcore.ConnectError
        return connect(self, "127.0.0.1", port, timeout)

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connected)
    monkeypatch.setattr(sending, "usable_addresses", lambda *_, **__: (f"127.0.0.{n}" for n in range(1, 9)))
    outcome = send(there.url, {}, b"{}")
    assert addresses == [f"127.0.0.{n}" for n in range(1, tried + 1)]
    assert outcome == (Outcome(204) if answers <= 3 else Outcome(problem="no connection: refused or closed"))


def test_a_receiver_without_a_valid_certificate_gets_nothing(there: Receiver) -> None:
    """A server that speaks no TLS, as one whose certificate is for another name."""
    outcome = send(there.url.replace("http:", "https:"), {}, b"{}")
    assert outcome.problem.startswith(("no connection", "no answer"))
    assert not there.received


def certificate_for(address: str, folder: Path) -> Path:
    """A file with a key and a certificate that the key itself has signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    now = timezone.now()
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    parts = (
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain),
        built.add_extension(alternative, critical=False).sign(key, hashes.SHA256()).public_bytes(encoding),
    )
    (file := folder / f"{address}.pem").write_bytes(b"".join(parts))
    return file


@pytest.mark.parametrize(
    ("address", "is_known", "problem"),
    [
        ("127.0.0.1", True, ""),
        ("127.0.0.1", False, "no connection: certificate: self-signed certificate"),
        ("127.0.0.2", True, "no connection: certificate: IP address mismatch, certificate is not valid for"),
    ],
)
def test_a_message_goes_only_to_a_receiver_whose_certificate_is_known_and_for_its_host(
    allowed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, is_known: bool, problem: str
) -> None:
    file = certificate_for(address, tmp_path)
    mine = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    mine.load_cert_chain(file)
    theirs = ssl.create_default_context(cafile=file if is_known else None)
    monkeypatch.setattr(sending, "_tls", lambda: theirs)
    with receiver(mine) as there:
        outcome = send(there.url, {}, b"{}")
    assert (len(there.received), outcome.is_success) == ((1, True) if not problem else (0, False))
    assert outcome.problem.startswith(problem)
    assert problem or not outcome.problem


def test_nothing_listens(allowed: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert send(f"http://127.0.0.1:{port}/", {}, b"{}") == Outcome(problem="no connection: refused or closed")


def test_a_mistake_of_the_service_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(sending, "usable_addresses", fails)
    with pytest.raises(ZeroDivisionError):
        send("https://example.org/", {}, b"{}")
