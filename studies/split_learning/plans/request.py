"""Checked requests for plans: an instance or its source, a method, a time budget and a seed."""

import json
from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np

from cluster.models import Capacity, Cluster, Server
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import check_integer, check_list, check_object, shown
from scheduling.split_learning.document import instance_document, read_split_learning
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.methods import method_of
from studies.models import MOST_SECONDS
from studies.split_learning.described import read_described
from studies.split_learning.scenarios import SLOT_MS, Scenario, draw

SECONDS: Final = 10.0
LEAST_SECONDS: Final = 0.1
LONGEST_LABEL: Final = 120
MOST_PAIRS: Final = 100_000
"""Largest number of helpers times clients of one instance."""
MEMORY: Final = "memory"
"""Name of the cluster resource that sets the memory of helpers."""
SOURCES: Final = ("instance", "profile", "scenario")
"""Keys of a request; it must have exactly one of them."""
GIGABYTES: Final = {"GB": 1.0, "MB": 1e-3, "TB": 1e3}
"""GB for one unit of each name."""


@dataclass(frozen=True)
class Wish:
    """A checked request for a plan."""

    instance: Instance
    method: str = "exact"
    seconds: float = SECONDS
    seed: int = 0
    label: str = ""
    cluster: Cluster | None = None
    origin: Json | None = None
    """The scenario or profile of the instance, as requested."""

    @classmethod
    def from_json(cls, body: Json) -> "Wish":
        """Read the body of a request; raises InvalidField naming the field, and the helper or client."""
        optional = (*SOURCES, "method", "seconds", "seed", "label", "cluster")
        check_object("", body, required=(), optional=optional)
        if sum(name in body for name in SOURCES) != 1:
            raise InvalidField("instance", f"expected either {', '.join(SOURCES[:-1])} or {SOURCES[-1]}")
        cluster = None if body.get("cluster") is None else _cluster(body["cluster"])
        method = body.get("method", "exact")
        if not isinstance(method, str):
            raise InvalidField("method", f"expected a string, got {shown(method)}")
        method_of(method)
        instance, origin = _instance(body, cluster)
        return cls(
            instance=instance,
            method=method,
            seconds=checked_seconds(body.get("seconds", SECONDS)),
            seed=checked_seed(body.get("seed", 0)),
            label=checked_label(body.get("label", "")),
            cluster=cluster,
            origin=origin,
        )

    @property
    def document(self) -> Json:
        """Return the instance as it is stored."""
        return instance_document(self.instance)


def _instance(body: Json, cluster: Cluster | None) -> tuple[Instance, Json | None]:
    """Return the instance, and its scenario or profile."""
    if "instance" in body:
        return read_instance(body["instance"], cluster), None
    if "profile" in body:
        try:
            _check_size(body["profile"])
            profile = body["profile"] if cluster is None else _of_servers(body["profile"], cluster)
            # A form reads numbers as decimals, which are stored as strings.
            return read_described(profile), {"profile": json.loads(json.dumps(profile, default=str))}
        except InvalidField as error:
            raise InvalidField(f"profile.{error.field}" if error.field else "profile", error.problem) from None
    if cluster is not None:
        raise InvalidField("cluster", "the helpers of a scenario are drawn, they are no servers")
    return _drawn(body["scenario"]), {"scenario": body["scenario"]}


def at_slot(origin: Json, slot_ms: int) -> tuple[Instance, Json]:
    """Return the instance in slots of another length, with its scenario or profile; raises InvalidField."""
    ((kind, said),) = origin.items()
    body = {kind: {**said, "slot_ms": slot_ms}}
    return _instance(body, None)[0], body


def checked_seed(value: object) -> int:
    """Check the seed of random methods; raises InvalidField."""
    return check_integer("seed", value)


def checked_label(value: object) -> str:
    """Check the label; raises InvalidField."""
    if not isinstance(value, str) or len(value) > LONGEST_LABEL:
        raise InvalidField("label", f"expected a string of at most {LONGEST_LABEL} characters")
    return value


def checked_seconds(value: object) -> float:
    """Check the time budget; raises InvalidField."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise InvalidField("seconds", f"expected a number, got {shown(value)}")
    if not LEAST_SECONDS <= value <= MOST_SECONDS:
        raise InvalidField("seconds", f"expected {LEAST_SECONDS} to {MOST_SECONDS}, got {shown(value)}")
    return float(value)


def _cluster(name: object) -> Cluster:
    found = Cluster.objects.filter(name=name).first() if isinstance(name, str) else None
    if found is None:
        raise InvalidField("cluster", f"there is no cluster {shown(name)}")
    return found


def read_instance(document: object, cluster: Cluster | None) -> Instance:
    """Read a whole instance, with the memory of servers if there is a cluster; raises InvalidField."""
    try:
        _check_size(document)
        return read_split_learning(document if cluster is None else _of_servers(document, cluster))
    except InvalidField as error:
        where = f"instance.{error.field}" if error.field else "instance"
        raise InvalidField(where, error.problem) from None


def _check_size(document: object) -> None:
    """Check the size before reading, since a list of a million helpers would be read one by one."""
    if not isinstance(document, dict):
        raise InvalidField("", f"expected an object, got {shown(document)}")
    rows = [document.get(name) for name in ("helpers", "clients")]
    sizes = [len(row) for row in rows if isinstance(row, list)]
    if len(sizes) == 2 and sizes[0] * sizes[1] > MOST_PAIRS:
        raise InvalidField(
            "clients", f"expected helpers x clients of at most {MOST_PAIRS}, got {sizes[0]} x {sizes[1]}"
        )


def _drawn(value: object) -> Instance:
    """Draw an instance of measured devices (Section VII of the paper)."""
    needed = ("model", "clients", "helpers")
    rest = check_object("scenario", value, required=needed, optional=("number", "slot_ms", "seed"))
    counts = {name: check_integer(f"scenario.{name}", rest[name], low=1, high=1000) for name in ("clients", "helpers")}
    if counts["clients"] * counts["helpers"] > MOST_PAIRS:
        raise InvalidField("scenario.clients", f"expected helpers x clients of at most {MOST_PAIRS}")
    slot_ms = rest.get("slot_ms")
    model = rest["model"]
    if not isinstance(model, str) or model not in SLOT_MS:
        raise InvalidField("scenario.model", f"expected one of {', '.join(SLOT_MS)}, got {shown(model)}")
    number = check_integer("scenario.number", rest.get("number", 1), low=1, high=2)
    seed = check_integer("scenario.seed", rest.get("seed", 0))
    try:
        scenario = Scenario(
            number=number,
            model=model,
            **counts,
            slot_ms=None if slot_ms is None else check_integer("slot_ms", slot_ms, low=1, high=10**6),
        )
        return draw(scenario, np.random.default_rng(seed))
    except InvalidField as error:
        raise InvalidField(f"scenario.{error.field}", error.problem) from None


def _of_servers(document: object, cluster: Cluster) -> object:
    """Return the document with the memory of the cluster's servers for helpers that do not state their memory."""
    if not isinstance(document, dict) or not isinstance(document.get("helpers"), list):
        return document  # it is refused with a message when it is read
    servers = {server.name: server for server in Server.objects.filter(cluster=cluster)}
    helpers = [
        _of_server(f"helpers[{i}]", row, servers) for i, row in enumerate(check_list("helpers", document["helpers"]))
    ]
    return {**document, "helpers": helpers}


def _of_server(where: str, row: object, servers: dict[str, Server]) -> object:
    if not isinstance(row, dict):
        return row
    name = row.get("name")
    server = servers.get(name) if isinstance(name, str) else None
    if server is None:
        known = ", ".join(list(servers)[:10]) or "none"
        raise InvalidField(f"{where}.name", f"expected a server of the cluster, got {shown(name)}; there are {known}")
    if row.get("memory_gb") is not None:
        return row
    amount = Capacity.objects.filter(server=server, resource__name=MEMORY).select_related("resource").first()
    if amount is None or amount.resource.unit not in GIGABYTES:
        raise InvalidField(f"{where}.memory_gb", f"missing, and server {server.name} has no {MEMORY} in GB or MB")
    return {**row, "memory_gb": str(amount.amount * GIGABYTES[amount.resource.unit])}
