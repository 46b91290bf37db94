"""Measured profiles: the shared instances cell by cell, and the scenarios."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.errors import InvalidField
from scheduling.split_learning.instance import TIMES, Instance
from studies.split_learning.profile import (
    CLIENTS,
    HELPERS,
    KILOBIT_OF_KIB,
    RELEASED_KILOBIT_OF_KIB,
    Client,
    Device,
    Network,
    profiled,
)
from studies.split_learning.scenarios import MEMORY, Scenario, draw
from tests.scheduling.split_learning.worlds import path_of, results, shared

KNOWN = {
    "VM": "vm",
    "laptop": "m1",
    "d1": "rpi4",
    "d2": "rpi3",
    "jetson-cpu": "jetson-cpu",
    "jetson-gpu": "jetson-gpu",
}
ROUNDED = 0.5e-4
"""Shared instances tell how near a device is to another with four decimals."""


def device(row: list[Any], off: float) -> Device:
    name, other, share = KNOWN[row[0]], KNOWN[row[1]], row[2]
    return Device(name) if name == other else Device(name, other, min(1.0, max(0.0, share + off)))


def again(meta: dict[str, Any], instance: Instance, off: float = 0.0) -> Instance:
    clients = [
        Client(device(row, off), (cuts[0], cuts[1]))
        for row, cuts in zip(meta["client_device"], meta["cut_layers"], strict=True)
    ]
    rate = np.array(meta["mbps"], dtype=np.float64)
    return profiled(
        Network(meta["model"]),
        clients,
        [device(row, off) for row in meta["helper_device"]],
        up_mbps=rate,
        down_mbps=rate,
        capacity=instance.capacity,
        slot_ms=instance.slot_ms,
        kilobit_of_kib=KILOBIT_OF_KIB if meta["link_units"] == "si" else RELEASED_KILOBIT_OF_KIB,
        demand=instance.demand,
    )


def test_shared_instances_come_again_from_what_is_said_of_their_devices() -> None:
    """Exactly where devices are measured ones; where they are mixed, to the slot that the rounded share decides."""
    seen = other = cells = 0
    for name in results():
        meta = json.loads(path_of(name).read_text())["meta"]
        if "client_device" not in meta:
            continue
        seen += 1
        instance = shared(name)
        made = again(meta, instance)
        nearby = [again(meta, instance, off) for off in (-ROUNDED, ROUNDED)]
        for time in TIMES:
            wanted, found = getattr(instance, time), getattr(made, time)
            cells += wanted.size
            other += int((wanted != found).sum())
            if meta["scenario"] == 1:
                assert (wanted == found).all()
            around = [getattr(one, time) for one in nearby]
            assert (wanted >= np.minimum(*around)).all()
            assert (wanted <= np.maximum(*around)).all()
    assert seen > 90
    assert other / cells < 0.001


def test_demands_of_shared_instances_are_weights_and_activations_of_the_part() -> None:
    for name in ("resnet101-s2-j10-i2-seed1", "vgg19-s1-j10-i2-seed1"):
        meta = json.loads(path_of(name).read_text())["meta"]
        network = Network(meta["model"])
        # They call GiB GB, and round to six decimals.
        wanted = [network.demand((a, b)) / 2**30 for a, b in meta["cut_layers"]]
        assert (shared(name).demand / 10**9).tolist() == pytest.approx(wanted, abs=1e-6)


def test_a_device_between_two_takes_times_between_theirs() -> None:
    network = Network("vgg19")
    slow, fast = (network.spans(Device(name), 1, 3).forward for name in ("rpi4", "jetson-gpu"))
    assert network.spans(Device("rpi4", "jetson-gpu", 0.25), 1, 3).forward == pytest.approx(0.75 * slow + 0.25 * fast)


def test_what_ran_out_of_memory_has_times_only_of_the_parts_of_clients() -> None:
    network = Network("resnet101")
    assert network.cuts == (3, 33)
    assert network.spans(Device("rpi3"), 34, 37).forward == pytest.approx(3883)
    assert network.spans(Device("rpi3"), 34, 37).backward == pytest.approx(30666 + 313)
    with pytest.raises(InvalidField, match="no times of rpi3 for layers 4 to 33"):
        network.spans(Device("rpi3"), 4, 33)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("model", ["resnet101", "vgg19"])
def test_scenarios_are_the_same_for_the_same_seed_and_fit(number: int, model: str) -> None:
    scenario = Scenario(number, model, clients=30, helpers=5)
    one, two, third = (draw(scenario, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all((getattr(one, time) == getattr(two, time)).all() for time in (*TIMES, "demand", "capacity"))
    assert (one.release != third.release).any()
    assert one.demand.sum() <= 0.85 * one.capacity.sum()
    assert one.capacity.max() <= MEMORY
    assert (len(set(one.demand.tolist())) == 1) == (number == 1)
    # Slots of half the length: as many again, rounded up.
    fine = draw(replace(scenario, slot_ms=one.slot_ms // 2), np.random.default_rng(1))
    assert ((fine.forward <= 2 * one.forward) & (fine.forward >= 2 * one.forward - 1)).all()


def test_slower_links_take_no_less_time() -> None:
    network = Network("vgg19")
    clients, helpers = [Client(Device(name), network.cuts) for name in CLIENTS], [Device(name) for name in HELPERS]
    rate = np.full((2, 4), 8.0)
    how: dict[str, Any] = {"capacity": np.full(2, MEMORY), "slot_ms": 100}
    both = profiled(network, clients, helpers, up_mbps=rate, down_mbps=rate, **how)
    slow = profiled(network, clients, helpers, up_mbps=rate, down_mbps=rate / 4, **how)
    assert (slow.release == both.release).all()
    assert (slow.tail > both.tail).all()
    assert (slow.gap > both.gap).all()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cuts": (3, 25)}, "clients[0].cuts"),
        ({"cuts": (0, 23)}, "clients[0].cuts"),
        ({"cuts": (3, 3)}, "clients[0].cuts"),
        ({"rate": 0.0}, "up_mbps"),
        ({"rate": float("nan")}, "up_mbps"),
        ({"slot_ms": 0}, "slot_ms"),
        ({"device": "abacus"}, "device"),
        ({"model": "lenet"}, "model"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: dict[str, Any], field: str) -> None:
    rate = np.full((1, 1), change.get("rate", 1.0))
    with pytest.raises(InvalidField) as caught:
        profiled(
            Network(change.get("model", "vgg19")),
            [Client(Device(change.get("device", "rpi4")), change.get("cuts", (3, 23)))],
            [Device("vm")],
            up_mbps=rate,
            down_mbps=rate,
            capacity=np.array([MEMORY]),
            slot_ms=change.get("slot_ms", 100),
        )
    assert caught.value.field == field


def test_scenarios_out_of_range_are_refused_by_name() -> None:
    for scenario, field in (((3, "vgg19"), "number"), ((1, "lenet"), "model")):
        with pytest.raises(InvalidField) as caught:
            Scenario(scenario[0], scenario[1], clients=1, helpers=1)
        assert caught.value.field == field
    with pytest.raises(InvalidField, match="helpers"):
        draw(Scenario(2, "vgg19", clients=500, helpers=1), np.random.default_rng(1))
