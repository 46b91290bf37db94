"""Secrets and signatures of webhooks, by the convention "Standard Webhooks" (standardwebhooks.com).

A secret is drawn and stored encrypted, under a key that is made of the service's secret key. So another secret key
changes no secret: what an older key has encrypted is read with `settings.SECRET_KEY_FALLBACKS`, until
`manage.py encrypt_again` has encrypted it with the present one.
"""

import hmac
import secrets
from base64 import b64encode, urlsafe_b64encode
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

from auctions.models import Webhook

PREFIX: Final = "whsec_"
"""Secrets begin with it, so that programs which look for leaked secrets can find them."""
LENGTH: Final = 32
"""Bytes of a secret."""
PURPOSE: Final = "shadowprice.webhook.encryption"


class SecretUnreadable(Exception):
    """A stored secret was encrypted under a key that the service no longer has."""


def new_secret() -> str:
    """Draw a secret; return it encrypted, as it is stored."""
    return _box().encrypt(secrets.token_bytes(LENGTH)).decode()


def secret_of(stored: str) -> str:
    """Return a stored secret as its owner gets it: the prefix, then 32 bytes in base 64; raises SecretUnreadable."""
    return PREFIX + b64encode(_key(stored)).decode()


def is_readable(stored: str) -> bool:
    """Return whether the service has the key under which a stored secret was encrypted."""
    try:
        _key(stored)
    except SecretUnreadable:
        return False
    return True


def encrypted_again(stored: str) -> str:
    """Return a stored secret, encrypted with the present key; raises SecretUnreadable."""
    try:
        return _box().rotate(stored.encode()).decode()
    except InvalidToken:
        raise SecretUnreadable from None


def signed(webhook: Webhook, message: str, body: bytes, now: datetime) -> dict[str, str]:
    """Return the headers that identify and sign a message; the receiver refuses it if its time is long past.

    Raises
    ------
    SecretUnreadable
        If the secret was encrypted under a key that the service no longer has.
    """
    timestamp = str(int(now.timestamp()))
    stored = [webhook.secret]
    if webhook.old_until is not None and webhook.old_until > now:
        stored.append(webhook.old_secret)
    signatures = [signature(_key(one), message, timestamp, body) for one in stored]
    return {"webhook-id": message, "webhook-timestamp": timestamp, "webhook-signature": " ".join(signatures)}


def signature(key: bytes, message: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a message: HMAC with SHA-256 over its id, its time and its body."""
    content = f"{message}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.new(key, content, sha256).digest()).decode()


def _key(stored: str) -> bytes:
    try:
        return _box().decrypt(stored.encode())
    except InvalidToken:
        raise SecretUnreadable from None


def _box() -> MultiFernet:
    return _box_of((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=4)
def _box_of(keys: tuple[str, ...]) -> MultiFernet:
    """Return what encrypts with the first of these keys, and reads with all of them."""
    derived = (salted_hmac(PURPOSE, "", secret=key, algorithm="sha256").digest() for key in keys)
    return MultiFernet([Fernet(urlsafe_b64encode(one)) for one in derived])
