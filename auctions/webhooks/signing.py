"""Secrets and signatures of webhooks, by the convention "Standard Webhooks" (standardwebhooks.com)."""

import hmac
import secrets
from base64 import b64encode
from datetime import datetime
from hashlib import sha256
from typing import Final

from django.utils.crypto import salted_hmac

from auctions.models import Webhook

PREFIX: Final = "whsec_"
"""Secrets begin with it, so that programs which look for leaked secrets can find them."""
PURPOSE: Final = "shadowprice.webhook"


def new_salt() -> str:
    """Return a salt, of which a new secret is made."""
    return secrets.token_hex(32)


def secret_of(salt: str) -> str:
    """Return the secret that belongs to a salt: the prefix, then 32 bytes in base 64."""
    return PREFIX + b64encode(_key(salt)).decode()


def signed(webhook: Webhook, message: str, body: bytes, now: datetime) -> dict[str, str]:
    """Return the headers that identify and sign a message; the receiver refuses it if its time is long past."""
    timestamp = str(int(now.timestamp()))
    salts = [webhook.salt]
    if webhook.old_until is not None and webhook.old_until > now:
        salts.append(webhook.old_salt)
    signatures = [signature(_key(salt), message, timestamp, body) for salt in salts]
    return {"webhook-id": message, "webhook-timestamp": timestamp, "webhook-signature": " ".join(signatures)}


def signature(key: bytes, message: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a message: HMAC with SHA-256 over its id, its time and its body."""
    content = f"{message}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.new(key, content, sha256).digest()).decode()


def _key(salt: str) -> bytes:
    return salted_hmac(PURPOSE, salt, algorithm="sha256").digest()
