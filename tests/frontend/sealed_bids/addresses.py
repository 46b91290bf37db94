"""All that a bidder may read: every address of the URL map, asked one after the other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from auctions.models import Market
from frontend.versions import read_marks
from frontend.views.charts import CHARTS
from tests.auctions.worlds import body
from web.logs import HEADER

OWN, ANOTHERS = "own", "another's"
VALUES: Final[dict[str, tuple[str, ...]]] = {
    "cluster": ("lab",),
    "name": ("lab",),
    "chart_name": tuple(CHARTS),
    "chart": ("schedule", "machines", "plan", "segments", "preemptions"),
    "kind": ("value", "time"),
    "server": ("edge-0",),
    "key": ("0123-g0-w0",),
    "program": ("train",),
    "team": ("vision",),
    "user": ("alice", "bob"),
    "text": ("1:signature",),
    "uidb64": ("MQ",),
}
"""What stands for a part of an address, if it is not the number of a row."""
ROWS: Final = ("sequence", "number", "plan", "trace", "experiment", "counterfactual", "run")
NUMBERED: Final = (*ROWS, "token", "invitation", "webhook", "delivery")
"""Parts of addresses that number rows."""
OF_BIDS: Final = "/bids/<"
"""In routes of bids, of which there are the bidder's own and another's. There is no other row with a number, so one
number shows the answer to all.
"""
TABLES: Final = {
    "plan_csv": ("helpers", "clients", "schedule", "course"),
    "experiment_csv": ("results", "runs"),
}
"""Other meanings of `name`."""
QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "api-prices": ("", "?from_slot=0", "?from_slot=1&to_slot=3&server=edge-0"),
    "api-utilisation": ("", "?from_slot=0"),
    "api-bids": ("", "?page_size=1", "?admitted=true"),
    "bids": ("", "?mine=1", "?label=x"),
    "overview": ("", "?prices=both"),
}
"""Addresses that answer otherwise with a query."""
SERVER: Final = "server:edge-0"
CHOICES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "chart": {
        "prices": ("both", "type", SERVER),
        "congestion": ("both", "type", SERVER),
        "schedule": (SERVER,),
    },
    "chart_csv": {"prices": ("both",), "congestion": ("both",), "schedule": (SERVER,)},
}
"""What may be chosen of a chart, by its name, at addresses of charts: each reads only what is chosen of itself."""
ELSEWHERE: Final = ("admin:", "api-docs", "api-schema")
"""Not of a market: the admin, which a bidder does not enter, and documents made from the code alone."""
BY_CHANCE: Final = ("Set-Cookie", "Expires", HEADER)
"""Headers that differ from answer to answer: times, and the id of the request."""
CSRF: Final = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]+"')
QUOTED: Final = (body(50.0), body(0.001), body(500.0, epochs=5), body(1.0, epochs=30))


def patterns(resolver: Any = None, prefix: str = "", names: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Route, name and parts of every address there is."""
    for one in (resolver or get_resolver()).url_patterns:
        route = str(one.pattern)
        if isinstance(one, URLResolver):
            space = f"{one.namespace}:" if one.namespace else ""
            yield from patterns(one, prefix + route, names + space)
        elif isinstance(one, URLPattern) and isinstance(one.pattern, RoutePattern):
            yield prefix + route, names + (one.name or ""), tuple(one.pattern.converters)


@dataclass(frozen=True)
class Address:
    """One address with what was put in for its parts."""

    name: str
    path: str


def addresses(numbers: tuple[int, ...]) -> list[Address]:
    """Every address a bidder could ask for; a new part of a route has to be given its values here."""
    found = []
    for route, name, parts in patterns():
        if name.startswith(ELSEWHERE):
            continue
        paths = [f"/{route}"]
        for part in parts:
            if part in NUMBERED:
                values = tuple(map(str, numbers if OF_BIDS in route else numbers[:1]))
            else:
                values = TABLES.get(name, VALUES["name"]) if part == "name" and name in TABLES else VALUES[part]
            slot = re.compile(rf"<(\w+:)?{part}>")
            paths = [slot.sub(value, path) for path in paths for value in values]
        found += [Address(name, path + query) for path in paths for query in _queries(name, path)]
    return found


def _queries(name: str, path: str) -> tuple[str, ...]:
    """What is asked at an address."""
    if name not in CHOICES:
        return QUERIES.get(name, ("",))
    chart = path.rpartition("/")[2].partition(".")[0]
    return "", *(f"?{chart}={choice}" for choice in CHOICES[name].get(chart, ()))


_known: Final = cache(addresses)


@dataclass
class Spy:
    """A bidder who reads everything, and keeps every answer."""

    client: Client
    market: Market
    numbers: tuple[int, ...]
    """Numbers of bids, plans and other objects."""
    kept: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Readings by moment and address."""

    def look(self, moment: str, *, only: re.Pattern[str] | None = None) -> dict[str, Any]:
        """Read all there is, or those addresses only: status, headers and body of each answer."""
        read = {one.path: self.get(one.path) for one in _known(self.numbers) if only is None or only.search(one.path)}
        for i, quoted in enumerate(QUOTED):
            read[f"quote {i}"] = self._post("/api/v1/clusters/lab/quotes", quoted)
        form = {"model": "ResNet-50", "epochs": "2", "form": "constant", "value": "40", "architecture": "ps"}
        read["live quote"] = _plain(self.client.post("/markets/lab/quote/", form))
        read["stream"] = read_marks([self.market.pk])[self.market.pk]
        self.kept |= {(moment, path): answer for path, answer in read.items()}
        return read

    def bid(self, moment: str, value: float, **changes: Any) -> int:
        """Submit a bid of one's own, and keep the answer; its number."""
        answer = self.client.post("/api/v1/clusters/lab/bids", body(value, **changes), content_type="application/json")
        self.kept[moment, "bid"] = _plain(answer)
        number: int = answer.json()["sequence"]
        return number

    def get(self, path: str) -> Any:
        """Read one address."""
        return _plain(self.client.get(path))

    def _post(self, path: str, sent: Any) -> Any:
        return _plain(self.client.post(path, sent, content_type="application/json"))


def _plain(answer: Any) -> Any:
    content = CSRF.sub(b"", b"".join(answer) if answer.streaming else answer.content)
    headers = {key: value for key, value in answer.headers.items() if key not in BY_CHANCE}
    return answer.status_code, headers, content
