"""Instances from profiles: the measured figures in slots, by hand; what is wrong is named with client or helper."""

from copy import deepcopy
from math import ceil
from typing import Any

import numpy as np
import pytest

from scheduling.model.errors import InvalidField
from scheduling.split_learning.instance import TIMES, Instance
from studies.split_learning.api.examples import DESCRIBED
from studies.split_learning.measured_networks import GIB, KILOBIT_OF_KIB, Client, Device, Network, profiled
from studies.split_learning.profiles import instance_of_profile
from studies.split_learning.schemas.profile import ProfileIn


def read_profile(document: object) -> Instance:
    """The instance of a profile."""
    return instance_of_profile(ProfileIn.read(document))


def one(**more: Any) -> Any:
    """A client and a helper."""
    return {
        "model": "resnet101",
        "helpers": [{"name": "rack", "device": "vm", "memory_gb": 16}],
        "clients": [{"name": "pi", "device": "rpi4"}],
        "mbps": 10,
        **more,
    }


def test_the_times_are_those_measured() -> None:
    network = Network("resnet101")
    instance = read_profile(one(slot_ms=1, up_mbps=4))
    first, second = network.cuts
    own, last = (network.spans(Device("rpi4"), *part) for part in ((1, first), (second + 1, network.layers)))
    kilobits = [network.activations[cut - 1] * KILOBIT_OF_KIB for cut in (first, second)]
    assert instance.release.tolist() == [[ceil(own.forward + kilobits[0] / 4)]]
    assert instance.tail.tolist() == [[ceil(kilobits[0] / 10 + own.backward)]]
    assert instance.gap.tolist() == [[ceil(kilobits[1] / 10 + last.forward) + ceil(last.backward + kilobits[1] / 4)]]
    assert instance.forward.tolist() == [[ceil(network.spans(Device("vm"), first + 1, second).forward)]]
    assert (instance.helpers, instance.clients, instance.slot_ms) == (("rack",), ("pi",), 1)
    assert instance.capacity.tolist() == [16 * 10**9]
    assert instance.demand.tolist() == [network.demand(network.cuts)]


def test_it_is_what_the_profile_makes_of_devices_in_between() -> None:
    between = {"device": "jetson-cpu", "other": "jetson-gpu", "share": 0.4, "cuts": [2, 33]}
    said = read_profile(one(clients=[between], slot_ms=50))
    made = profiled(
        Network("resnet101"),
        [Client(Device("jetson-cpu", "jetson-gpu", 0.4), (2, 33))],
        [Device("vm")],
        up_mbps=np.full((1, 1), 10.0),
        down_mbps=np.full((1, 1), 10.0),
        capacity=np.array([16 * GIB]),
        slot_ms=50,
    )
    for name in TIMES:
        assert getattr(said, name).tolist() == getattr(made, name).tolist()


def test_a_link_goes_before_a_client_and_a_client_before_all() -> None:
    fast, slow = ({"mbps": rate} for rate in (100, 1))
    helpers = [{"name": name, "device": "vm", "memory_gb": 16} for name in ("a", "b")]
    clients = [{"name": "x", "device": "rpi4", **slow}, {"name": "y", "device": "rpi4"}]
    instance = read_profile(
        one(helpers=helpers, clients=clients, links=[{"client": "x", "helper": "b", **fast}], slot_ms=10)
    )
    (x_a, y_a), (x_b, y_b) = instance.release.tolist()
    assert x_a > y_a == y_b > x_b


def test_memory_may_be_said_of_a_client() -> None:
    instance = read_profile(one(clients=[{"device": "rpi4", "demand_gb": "0.5"}]))
    assert instance.demand.tolist() == [5 * 10**8]
    assert instance.clients == ("client-1",)


WRONG: list[tuple[tuple[Any, ...], Any, str, str]] = [
    (("model",), "lenet", "model", "resnet101"),
    (("slot_ms",), 0, "slot_ms", "1 to"),
    (("helpers",), [], "helpers", "expected 1 to"),
    (("helpers", 0, "device"), "abacus", "helpers[0].device", "rack"),
    (("helpers", 0, "device"), "rpi3", "helpers[0].device", "rack"),
    (("helpers", 0, "memory_gb"), -1, "helpers[0].memory_gb", "rack"),
    (("helpers", 1, "name"), "rack", "helpers", "more than once"),
    (("clients", 0, "device"), 3, "clients[0].device", "hall"),
    (("clients", 0, "device"), "toaster", "clients[0].device", "hall"),
    (("clients", 2, "cuts"), [33, 2], "clients[2].cuts", "gate"),
    (("clients", 2, "cuts"), [2], "clients[2].cuts", "2 entries"),
    (("clients", 3, "share"), 1.5, "clients[3].share", "yard"),
    (("clients", 1, "up_mbps"), 0, "clients[1].up_mbps", "roof"),
    (("clients", 0, "mbps"), "fast", "clients[0].mbps", "hall"),
    (("clients", 0, "demand_gb"), 99, "clients[0].demand_gb", "hall"),
    (("clients", 0, "colour"), "red", "clients[0].colour", "unknown"),
    (("links", 0, "helper"), "cellar", "links[0].helper", "rack, laptop"),
    (("links", 0, "mbps"), -1, "links[0].mbps", "hall"),
    (("links",), [{}] * 1000, "links", "got 1000"),
    (("cuts",), [0, 5], "cuts[0]", "1 to"),
]


@pytest.mark.parametrize(("path", "value", "field", "words"), WRONG)
def test_what_is_wrong_is_named(path: tuple[Any, ...], value: Any, field: str, words: str) -> None:
    document = deepcopy(DESCRIBED)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InvalidField) as raised:
        read_profile(document)
    assert (raised.value.field, words in raised.value.problem) == (field, True), raised.value


def test_a_link_without_a_rate_is_named() -> None:
    document = one(clients=[{"name": "pi", "device": "rpi4", "up_mbps": 3}])
    del document["mbps"]
    with pytest.raises(InvalidField, match="got none for client pi and helper rack"):
        read_profile(document)
    del document["clients"][0]["up_mbps"]
    document["clients"][0].update(device="jetson-cpu", other="jetson-gpu", mbps=2)
    with pytest.raises(InvalidField, match="other and share together"):
        read_profile(document)
