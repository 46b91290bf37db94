"""A cluster as one document."""

import copy
import json
from typing import Any

import numpy as np
import pytest

from cluster.documents import export_cluster, import_cluster
from cluster.facts import inventory_of
from cluster.models import Capacity, Cluster, Server
from demo.clusters import edge_cloud_document
from scheduling.model.errors import InvalidField

pytestmark = pytest.mark.django_db


def document(**changes: Any) -> dict[str, Any]:
    return edge_cloud_document(np.random.default_rng(3), name="lab", edge_servers=3, types=2) | changes


def test_exporting_what_was_imported_gives_the_same_bytes() -> None:
    first = export_cluster(import_cluster(document()))
    second = export_cluster(import_cluster(json.loads(json.dumps(first))))
    assert json.dumps(first) == json.dumps(second)
    assert json.dumps(first["servers"]) == json.dumps(document()["servers"])
    assert json.dumps(first["models"]) == json.dumps(document()["models"])


def test_the_core_sees_servers_and_types_in_the_order_of_the_document() -> None:
    inventory = inventory_of(import_cluster(document()))
    assert inventory.servers == ("edge-001", "edge-002", "edge-003", "cloud")
    assert inventory.cloud == (False, False, False, True)
    assert [machine.name for machine in inventory.workers] == ["worker-1", "worker-2"]
    assert inventory.capacity[3].tolist() == [100, 100, 50, 50]
    assert inventory.worker_demand.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]


def test_importing_again_keeps_the_rows_of_servers_that_stay() -> None:
    cluster = import_cluster(document())
    kept = Server.objects.get(cluster=cluster, name="edge-002").pk
    changed = document()
    del changed["servers"][0]
    import_cluster(changed)
    assert Server.objects.get(cluster=cluster, name="edge-002").pk == kept
    assert Server.objects.filter(cluster=cluster).count() == 3


def test_a_server_loads_in_a_few_queries_however_many_there_are(django_assert_max_num_queries: Any) -> None:
    cluster = import_cluster(edge_cloud_document(np.random.default_rng(1), name="big", edge_servers=300))
    with django_assert_max_num_queries(6):
        inventory = inventory_of(cluster)
    assert inventory.capacity.shape == (301, 10)
    with django_assert_max_num_queries(12):
        export_cluster(cluster)


WRONG: dict[str, tuple[list[Any], Any]] = {
    "slot_seconds": (["slot_seconds"], 0),
    "horizon_slots": (["horizon_slots"], True),
    "epoch": (["epoch"], "2026-01-01"),
    "name": (["name"], "no spaces"),
    "surprise": (["surprise"], 1),
    "clock.speed": (["clock", "speed"], float("nan")),
    "resources[1].name": (["resources", 1, "name"], "worker-1"),
    "worker_types[0].bandwidth_mbps": (["worker_types", 0, "bandwidth_mbps"], 0),
    "worker_types[0].demand": (["worker_types", 0, "demand"], {}),
    "worker_types[0].demand.gold": (["worker_types", 0, "demand", "gold"], 1),
    "servers[2].capacity.worker-1": (["servers", 2, "capacity", "worker-1"], -1),
    "servers[0].kind": (["servers", 0, "kind"], "moon"),
    "servers[1].storage_mb": (["servers", 1, "storage_mb"], None),
    "servers[0].storage_mb": (["servers", 0, "storage_mb"], -0.5),
    "servers[0].upload_delay_s": (["servers", 0, "upload_delay_s"], float("inf")),
    "models[0].worker_step_s.ps-1": (["models", 0, "worker_step_s", "ps-1"], 1.0),
    "models[0].chunks": (["models", 0, "chunks"], 1e3),
    "models[0].gradient_mb": (["models", 0, "gradient_mb"], "98"),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field_is_named_and_nothing_is_stored(field: str) -> None:
    path, value = WRONG[field]
    wrong = copy.deepcopy(document())
    place: Any = wrong
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InvalidField) as caught:
        import_cluster(wrong)
    # The second of two equal names is the one that is wrong.
    assert caught.value.field == field
    assert not Cluster.objects.exists()
    assert not Capacity.objects.exists()


def test_all_that_is_wrong_is_named_and_nothing_is_stored() -> None:
    wrong = document(title="", slot_seconds=0, clock={"kind": "sundial", "speed": -1})
    wrong["resources"][0]["unit"] = ""
    wrong["worker_types"][0] |= {"bandwidth_mbps": 0, "demand": {}}
    wrong["servers"][1] |= {"kind": "moon", "storage_mb": -1}
    wrong["models"][0] |= {"chunks": 0, "worker_step_s": {"worker-2": "x", "worker-9": 1}}
    with pytest.raises(InvalidField) as caught:
        import_cluster(wrong)
    assert [one.field for one in caught.value.all_wrong] == [
        "title",
        "slot_seconds",
        "clock.kind",
        "clock.speed",
        "resources[0].unit",
        "worker_types[0].bandwidth_mbps",
        "worker_types[0].demand",
        "servers[1].kind",
        "servers[1].storage_mb",
        "models[0].chunks",
        "models[0].worker_step_s.worker-9",
    ]
    assert not Cluster.objects.exists()


def test_every_name_that_comes_twice_is_named() -> None:
    wrong = document()
    for s in (1, 3):
        wrong["servers"][s]["name"] = wrong["servers"][0]["name"]
    with pytest.raises(InvalidField) as caught:
        import_cluster(wrong)
    assert [one.field for one in caught.value.all_wrong] == ["servers[1].name", "servers[3].name"]
