"""Constraints of the database, and guards of the models, for every writer."""

from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, transaction
from django.db.models import Model

from cluster.documents import import_cluster
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Cluster, Demand, MachineType, ModelProfile, Resource, Server, StepTime
from demo.clusters import edge_cloud_document

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> Cluster:
    return import_cluster(edge_cloud_document(np.random.default_rng(1), name="lab", edge_servers=1, types=1))


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (Cluster, "clock_speed"),
        (Server, "upload_delay_s"),
        (ModelProfile, "gradient_mb"),
        (StepTime, "seconds"),
    ],
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_no_row_holds_a_number_that_is_not_finite_and_positive(
    lab: Cluster, model: type[Model], field: str, value: float
) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        model._default_manager.update(**{field: value})


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (Cluster, {"slot_seconds": 0}),
        (Cluster, {"horizon_slots": 0}),
        (Cluster, {"clock_kind": "sand"}),
        (Demand, {"amount": 0}),
        (Capacity, {"amount": 2_000_000}),
        (MachineType, {"bandwidth_mbps": 0}),
        (MachineType, {"role": "manager"}),
        (Server, {"kind": "moon"}),
        (Server, {"storage_mb": -1.0}),
        (Server, {"storage_mb": float("inf")}),
    ],
)
def test_the_database_holds_the_rules(lab: Cluster, model: type[Model], changes: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        model._default_manager.update(**changes)


def test_a_type_left_with_nothing_is_refused_by_name(lab: Cluster) -> None:
    with (
        pytest.raises(ChangeRefused, match="worker-1: expected a demand of at least one resource, got none"),
        checked_change(lab),
    ):
        Demand.objects.filter(machine_type__name="worker-1").delete()
    assert Demand.objects.count() == 2


def test_every_type_and_server_that_is_wrong_is_named(lab: Cluster) -> None:
    other = import_cluster(edge_cloud_document(np.random.default_rng(1), name="other", edge_servers=1, types=1))
    server = Server.objects.filter(cluster=lab)[0]
    one = Capacity.objects.filter(server=server)[0]

    def spoil() -> None:
        Capacity.objects.filter(pk=one.pk).update(resource=Resource.objects.filter(cluster=other)[0])
        Demand.objects.filter(machine_type__cluster=lab).delete()

    with pytest.raises(ChangeRefused) as caught, checked_change(lab):
        spoil()
    named = [problem.partition(":")[0] for problem in caught.value.problems]
    assert named == [server.name, *MachineType.objects.filter(cluster=lab).values_list("name", flat=True)]


def test_a_demand_on_another_clusters_resource_is_refused(lab: Cluster) -> None:
    other = import_cluster(edge_cloud_document(np.random.default_rng(1), name="other", edge_servers=1, types=1))
    alien = Resource.objects.filter(cluster=other)[0]
    with pytest.raises(ChangeRefused, match="another cluster"), checked_change(lab):
        Demand.objects.filter(machine_type__cluster=lab).update(resource=alien)
    with pytest.raises(ChangeRefused, match="another cluster"), checked_change(lab):
        Capacity.objects.filter(server__cluster=lab, resource__name="ps-1").update(resource=alien)


def test_a_horizon_whose_prices_fit_no_memory_is_refused() -> None:
    big = edge_cloud_document(np.random.default_rng(1), name="big", edge_servers=301)
    with pytest.raises(ChangeRefused, match="shorten the horizon"):
        import_cluster({**big, "horizon_slots": 10_000})
    assert not Cluster.objects.exists()
