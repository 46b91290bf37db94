"""A client of the REST API for a bidder, using only the standard library."""

import json
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from time import monotonic
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from demo.jobs import Offer
from scheduling.model.types import Json

ANSWER_S = 40.0
"""Longer than the longest `Prefer: wait`."""
POLL_S = 0.5
"""Time between two questions whether markets decide."""

HERE: Final = ("127.0.0.1", "localhost", "::1")
"""Hosts that no proxy of the environment can reach for this process."""


class Unreachable(Exception):
    """The server did not answer, or is busy: the same may succeed a little later."""


class Refused(Exception):
    """The server answered with a problem document."""


def submit(base: str, cluster: str, offer: Offer, *, token: str, wait_s: int = 0) -> Json:
    """Send one bid; sending it again after no answer is safe, for its key comes with it."""
    headers = {"Authorization": f"Token {token}", "Idempotency-Key": offer.key}
    if wait_s:
        headers["Prefer"] = f"wait={wait_s}"
    answer: Json = post(f"{base}/api/v1/clusters/{cluster}/bids", offer.body, headers)
    return answer


def deciding(base: str, *, token: str) -> Callable[[], frozenset[str]]:
    """Return the clusters whose markets decide because their kernels are compiled; the server is polled."""
    known: frozenset[str] = frozenset()
    not_before = 0.0

    def ask() -> frozenset[str]:
        nonlocal known, not_before
        if monotonic() >= not_before:
            request = Request(f"{base}/api/v1/clusters", headers={"Authorization": f"Token {token}"})  # noqa: S310
            with suppress(Unreachable):
                rows = _sent(request)["results"]
                known = frozenset(row["name"] for row in rows if row["has_market"] and not row["compiling"])
            not_before = monotonic() + POLL_S
        return known

    return ask


def is_up(base: str) -> bool:
    """Return whether the server answers and reaches its database."""
    try:
        with _opened(Request(f"{base}/healthz"), timeout_s=2) as answer:  # noqa: S310 (an address this process chose)
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False


def post(url: str, body: Json, headers: dict[str, str]) -> Any:
    """Send a JSON document; return the answer. Raises Unreachable or Refused."""
    sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    request = Request(url, data=json.dumps(body).encode(), headers=sent, method="POST")  # noqa: S310
    return _sent(request)


def _sent(request: Request) -> Any:
    try:
        with _opened(request, timeout_s=ANSWER_S) as answer:
            return json.load(answer)
    except HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise Unreachable("it is busy") from None
        raise Refused(f"{error.code} {error.read(2000).decode(errors='replace')}") from None
    except (URLError, OSError, HTTPException) as error:
        raise Unreachable(str(error)) from None


def _opened(request: Request, *, timeout_s: float) -> Any:
    """Send a request, to this machine without the proxy that the environment may name."""
    is_here = urlsplit(request.full_url).hostname in HERE
    return build_opener(*([ProxyHandler({})] if is_here else [])).open(request, timeout=timeout_s)
