"""The headers of submissions: those of a request that change what it does, and those of its answer."""

import re
from typing import Final

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.model.types import Json
from web.errors import refuse

LONGEST_WAIT_S: Final = 30
LONGEST_KEY: Final = 128
_KEY: Final = re.compile(r"[\x21-\x7e]+")
_PREFERENCE: Final = re.compile(r'(?:[^,"]|"[^"]*")+')
_WAIT: Final = re.compile(r'\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:;.*)?', re.IGNORECASE)


def idempotency_key(request: Request) -> str | None:
    """The key, or None without one; an empty, over-long or non-ASCII key is refused."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _KEY.fullmatch(key) or len(key) > LONGEST_KEY:
        raise refuse(
            "Idempotency-Key", f"expected 1 to {LONGEST_KEY} visible ASCII characters without spaces, got {key[:60]!a}"
        )
    return key


def wait_s(request: Request) -> int | None:
    """Return the seconds that the client is ready to wait (RFC 7240), at most 30; None if not stated. Never fails."""
    for preference in _PREFERENCE.findall(request.headers.get("Prefer", "")):
        if found := _WAIT.fullmatch(preference):
            return min(int(found.group(1)), LONGEST_WAIT_S)
    return None


def submitted(
    document: Json, *, status: int, location: str | None = None, waited: int | None = None, repeated: bool = False
) -> Response:
    """Answer a submission: where it is, for how many seconds it was ready to wait, whether its key came before."""
    response = Response(document, status=status)
    if location is not None:
        response["Location"] = location
    if waited is not None:
        response["Preference-Applied"] = f"wait={waited}"
    if repeated:
        response["Idempotency-Replayed"] = "true"
    return response
