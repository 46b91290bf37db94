"""Tokens by which a program reports the progress of its own generation, and can do nothing else.

A token is signed and not stored. It names a generation and the fence of the executor that created it.
"""

from typing import Final

from django.core import signing

from execution.models import Generation

SALT: Final = "shadowprice.progress"


def token_of(generation: Generation) -> str:
    """Return the token of a generation."""
    return signing.Signer(salt=SALT).sign_object([generation.pk, generation.fence])


def generation_of(token: str) -> Generation | None:
    """Return the generation of a token, whether or not it has ended; None if this service did not sign the token."""
    try:
        key, fence = signing.Signer(salt=SALT).unsign_object(token)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return Generation.objects.filter(pk=key, fence=fence).first()
