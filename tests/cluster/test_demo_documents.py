"""The demo clusters' documents: what a market under each paper's policy can be opened on."""

from collections.abc import Callable

import numpy as np
import pytest

from cluster.documents import export_cluster, import_cluster
from cluster.facts import inventory_of
from demo.clusters import edge_cloud_document, gpu_servers_document, two_pools_document
from scheduling.model.types import Json
from scheduling.policies.oasis import Oasis

DOCUMENTS = (edge_cloud_document, two_pools_document, gpu_servers_document)


@pytest.mark.django_db
@pytest.mark.parametrize("draw", DOCUMENTS)
def test_it_comes_back_as_it_was_imported(draw: Callable[[np.random.Generator], Json]) -> None:
    document = draw(np.random.default_rng(1))
    assert export_cluster(import_cluster(document)) == document
    assert "Synthetic" in document["note"]


@pytest.mark.parametrize("draw", DOCUMENTS)
def test_it_is_drawn_from_the_seed_alone(draw: Callable[[np.random.Generator], Json]) -> None:
    first, again, other = (draw(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.django_db
def test_the_two_pools_suit_oasis() -> None:
    inventory = inventory_of(import_cluster(two_pools_document(np.random.default_rng(1))))
    Oasis().check(inventory)
    gpus = inventory.resources.index("gpu")
    assert inventory.capacity[:, gpus].sum() == 43


@pytest.mark.django_db
def test_every_machine_type_has_room_on_a_gpu_server() -> None:
    for seed in range(3):
        inventory = inventory_of(import_cluster(gpu_servers_document(np.random.default_rng(seed))))
        for demand in (*inventory.worker_demand, *inventory.ps_demand):
            assert (inventory.capacity >= demand).all(axis=1).any()
