"""The admin under a real market: what it has promised cannot be taken away."""

from datetime import timedelta

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Permission, User
from django.db.models import Q
from django.test import Client, RequestFactory
from django.urls import reverse

from auctions.engine.decision_queue import process_pending
from auctions.models import Event, EventKind
from cluster.models import Capacity, Cluster, Server
from tests.auctions.worlds import make_cluster, make_market, make_operator, make_user, submit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("olga"))
    return client


def form(server: Server, amount: int) -> dict[str, object]:
    held = list(server.capacities.order_by("resource__position"))
    fields: dict[str, object] = {
        "name": server.name,
        "kind": server.kind,
        "upload_delay_s": server.upload_delay_s,
        "position": server.position,
        "capacities-TOTAL_FORMS": len(held),
        "capacities-INITIAL_FORMS": len(held),
    }
    for i, row in enumerate(held):
        parts = {"id": row.pk, "server": server.pk, "resource": row.resource_id, "amount": amount}
        fields |= {f"capacities-{i}-{key}": value for key, value in parts.items()}
    return fields


def test_capacity_below_what_is_committed_is_refused_and_more_is_recorded(admin: Client) -> None:
    market = make_market()
    bid = submit(market, make_user())
    process_pending(market.pk)
    bid.refresh_from_db()
    server = Server.objects.get(pk=bid.commitments.all()[0].server_id)
    page = reverse("admin:cluster_server_change", args=[server.pk])
    refused = admin.post(page, form(server, 0))
    assert "committed; its capacity cannot be 0" in refused.content.decode()
    assert set(Capacity.objects.filter(server=server).values_list("amount", flat=True)) != {0}
    assert not Event.objects.filter(kind=EventKind.INVENTORY).exists()
    assert admin.post(page, form(server, 50)).status_code == 302
    assert Event.objects.filter(kind=EventKind.INVENTORY).count() == 1


def test_a_resource_that_jobs_hold_cannot_be_removed(admin: Client) -> None:
    cluster = make_cluster()
    # A second resource for each machine: a type that takes nothing is refused for that alone.
    resource = cluster.resources.create(name="power", unit="kW", position=9)
    for machine in cluster.machine_types.all():
        machine.demands.create(resource=resource, amount=1)
    for server in cluster.servers.all():
        server.capacities.create(resource=resource, amount=100)
    market = make_market(cluster)
    submit(market, make_user())
    process_pending(market.pk)
    fields = {"id": resource.pk, "cluster": cluster.pk, "name": resource.name, "unit": resource.unit, "DELETE": "on"}
    sent = {f"resources-0-{key}": value for key, value in ({"position": resource.position} | fields).items()}
    counts = {"resources-TOTAL_FORMS": 1, "resources-INITIAL_FORMS": 1}
    address = reverse("admin:cluster_cluster_change", args=[cluster.pk])
    page = admin.post(address, time_line(cluster) | counts | sent).text
    assert f"Resource {resource.name} cannot be removed: 1 job holds machines that take it." in page
    assert cluster.resources.filter(pk=resource.pk).exists()


def time_line(cluster: Cluster, **changes: object) -> dict[str, object]:
    return {
        "title": cluster.title,
        "note": "",
        "epoch_0": str(cluster.epoch.date()),
        "epoch_1": str(cluster.epoch.time()),
        "slot_seconds": cluster.slot_seconds,
        "horizon_slots": cluster.horizon_slots,
        "clock_kind": cluster.clock_kind,
        "resources-TOTAL_FORMS": 0,
        "resources-INITIAL_FORMS": 0,
        **changes,
    }


def test_a_time_line_with_bids_stays(admin: Client) -> None:
    market = make_market()
    submit(market, make_user())
    cluster = market.cluster
    changed = time_line(cluster, epoch_0="2020-01-01", epoch_1="00:00:00", slot_seconds=50)
    page = admin.post(reverse("admin:cluster_cluster_change", args=[cluster.pk]), changed).content.decode()
    assert "The epoch cannot change" in page
    assert "The slot length cannot change" in page
    before = cluster.epoch
    cluster.refresh_from_db()
    assert (cluster.epoch, cluster.slot_seconds) == (before, 100)


@pytest.mark.parametrize("change", [{"slot_seconds": 1000}, {"epoch_0": "2150-01-01"}, {"clock_kind": "virtual"}])
def test_a_market_without_bids_gets_no_time_line_in_an_earlier_slot(admin: Client, change: dict[str, object]) -> None:
    cluster = make_cluster()
    Cluster.objects.filter(pk=cluster.pk).update(clock_kind="real", epoch=cluster.epoch - timedelta(days=1))
    cluster.refresh_from_db()
    market = make_market(cluster)
    assert market.slot > 0
    page = reverse("admin:cluster_cluster_change", args=[cluster.pk])
    refused = admin.post(page, time_line(cluster, **change))
    assert f"The market has begun slot {market.slot}" in refused.content.decode()
    assert admin.post(page, time_line(cluster, slot_seconds=50)).status_code == 302
    cluster.refresh_from_db()
    assert (cluster.slot_seconds, cluster.clock_kind) == (50, "real")


def test_an_operator_who_may_only_view_rows_has_no_action_that_changes_them(client: Client, rf: RequestFactory) -> None:
    viewer = make_user("vera")
    enters = Q(codename="change_cluster", content_type__app_label="cluster")
    viewer.user_permissions.set(Permission.objects.filter(enters | Q(codename__startswith="view_")))
    found = {}
    for name, user in (("viewer", viewer), ("operator", make_operator())):
        request = rf.get("/")
        request.user = user
        pages = (page for model, page in site._registry.items() if model is not Cluster)
        found[name] = {action for page in pages for action in page.get_actions(request)}
    assert found["viewer"] == set()
    assert {"fail", "retry", "return_to_service", "switch_off", "cancel", "open_for_bids"} <= found["operator"]
    client.force_login(viewer)
    assert client.get(reverse("admin:auctions_outage_report")).status_code == 403
    client.force_login(make_operator("otto"))
    assert client.get(reverse("admin:auctions_outage_report")).status_code == 200
