"""The admin: what it stores, what it refuses in words, and how many queries it makes."""

import html
import json
import re
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from accounts.models import Membership, Team
from cluster import guards
from cluster.documents import document_text, export_cluster, import_cluster
from cluster.models import Capacity, Cluster, Demand, MachineType, Resource, Server
from demo.clusters import edge_cloud_document
from scheduling.model.inventory import Inventory
from tests.auctions.worlds import make_operator

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(make_operator())
    return client


@pytest.fixture
def lab() -> Cluster:
    return import_cluster(edge_cloud_document(np.random.default_rng(1), name="lab", edge_servers=2, types=1))


class Room:
    """A room above that can refuse, and counts its calls."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.calls = 0
        self.history = False

    def check(self, _cluster: Cluster, _inventory: Inventory) -> list[str]:
        return self.problems

    def listen(self, _cluster: Cluster) -> None:
        self.calls += 1


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room()
    monkeypatch.setattr(guards, "_checks", [room.check])
    monkeypatch.setattr(guards, "_listeners", [room.listen])
    monkeypatch.setattr(guards, "_histories", [lambda _cluster: room.history])
    return room


def url(model: str, page: str, *args: Any) -> str:
    return reverse(f"admin:cluster_{model}_{page}", args=args)


def rows(prefix: str, entries: list[dict[str, Any]], *, initial: int = 0) -> dict[str, Any]:
    counts = {f"{prefix}-TOTAL_FORMS": len(entries), f"{prefix}-INITIAL_FORMS": initial}
    return counts | {f"{prefix}-{i}-{key}": value for i, entry in enumerate(entries) for key, value in entry.items()}


def cluster_form(cluster: Cluster | None = None, **changes: Any) -> dict[str, Any]:
    resources = list(cluster.resources.all()) if cluster else []
    entries = [{"id": r.pk, "cluster": r.cluster_id, "name": r.name, "unit": r.unit, "position": r.position}
               for r in resources] or [{"name": "gpu", "unit": "GPU", "position": 0}]  # fmt: skip
    return {
        "name": cluster.name if cluster else "new",
        "title": "New",
        "note": "",
        "epoch_0": "2026-01-05",
        "epoch_1": "00:00:00",
        "slot_seconds": 3600,
        "horizon_slots": 24,
        "clock_kind": "virtual",
        "clock_speed": "1.0",
        **rows("resources", entries, initial=len(resources)),
        **changes,
    }


def server_form(server: Server, amount: int, **changes: Any) -> dict[str, Any]:
    held = list(server.capacities.order_by("resource__position"))
    entries = [{"id": c.pk, "server": server.pk, "resource": c.resource_id, "amount": c.amount} for c in held]
    entries[0]["amount"] = amount
    fields = {"name": server.name, "kind": server.kind, "upload_delay_s": server.upload_delay_s, "position": 0}
    return {**fields, **rows("capacities", entries, initial=len(entries)), **changes}


def test_a_cluster_is_made_with_its_resources(operator: Client) -> None:
    answer = operator.post(url("cluster", "add"), cluster_form())
    assert answer.status_code == 302
    cluster = Cluster.objects.get(name="new")
    assert [r.name for r in cluster.resources.all()] == ["gpu"]
    assert not cluster.clock_running


def names_of_fields(answer: Any) -> dict[str, str]:
    """Names for screen readers, of the fields that have one of their own."""
    tags = re.findall(r"<(?:input|select) [^>]*>", answer.content.decode())
    attributes = [dict(re.findall(r'([a-z-]+)="([^"]*)"', tag)) for tag in tags]
    return {tag.get("name", ""): tag["aria-label"] for tag in attributes if "aria-label" in tag}


def test_dates_and_fields_in_rows_have_names_for_screen_readers(client: Client, lab: Cluster) -> None:
    user = User.objects.create_superuser("root")
    client.force_login(user)
    named = names_of_fields(client.get(url("cluster", "change", lab.pk)))
    assert (named["epoch_0"], named["epoch_1"]) == ("Epoch, date", "Epoch, time")
    assert (named["resources-0-name"], named["resources-0-DELETE"]) == ("Name, row 1", "Delete, row 1")
    assert named["resources-__prefix__-unit"] == "Unit, new row"
    named = names_of_fields(client.get(url("server", "change", lab.servers.all()[0].pk)))
    assert (named["capacities-1-resource"], named["capacities-1-amount"]) == ("Resource, row 2", "Amount, row 2")
    named = names_of_fields(client.get(reverse("admin:auth_user_change", args=[user.pk])))
    assert (named["date_joined_0"], named["last_login_1"]) == ("Date joined, date", "Last login, time")
    team = Team.objects.create(name="lab", title="Lab", created_at=user.date_joined)
    Membership.objects.create(team=team, user=user)
    named = names_of_fields(client.get(reverse("admin:accounts_team_change", args=[team.pk])))
    assert (named["memberships-0-user"], named["memberships-0-role"]) == ("User, row 1", "Role, row 1")


@pytest.mark.parametrize("model", ["machinetype", "server", "modelprofile"])
def test_a_row_added_from_the_list_of_a_cluster_is_of_that_cluster(operator: Client, lab: Cluster, model: str) -> None:
    import_cluster(edge_cloud_document(np.random.default_rng(2), name="elsewhere", edge_servers=1, types=1))
    listed = operator.get(url(model, "changelist"), {"cluster__id__exact": lab.pk}).content.decode()
    add = re.search(r'href="([^"]*/add/\?[^"]*)" class="addlink"', listed)
    assert add
    answer = operator.get(html.unescape(add[1]))
    assert answer.context["adminform"].form["cluster"].value() == lab.pk
    assert "elsewhere" not in answer.content.decode()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("slot_seconds", 0, "greater than or equal to 1"),
        ("slot_seconds", 10**30, "less than or equal to"),
        ("horizon_slots", 0, "greater than or equal to 1"),
        ("horizon_slots", -3, "greater than or equal to 0"),
        ("clock_speed", "nan", "Enter a number"),
        ("clock_speed", "inf", "Enter a number"),
        ("clock_speed", "0", "must run forward"),
        ("clock_speed", "-2", "greater than or equal to 0"),
        ("epoch_0", "9999-12-31", "Expected a year from"),
        ("name", "no spaces", "valid"),
    ],
)
def test_a_nonsense_cluster_is_refused_in_words(operator: Client, field: str, value: Any, words: str) -> None:
    answer = operator.post(url("cluster", "add"), cluster_form(**{field: value}))
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    ("path", "field", "first"),
    [
        ("cluster/cluster", "name", False),
        ("cluster/cluster", "resources-0-name", True),
        ("cluster/machinetype", "name", True),
        ("cluster/server", "name", True),
        ("cluster/modelprofile", "name", True),
        ("execution/program", "name", True),
        ("accounts/team", "name", False),
    ],
)
def test_a_wrong_name_is_answered_with_what_a_name_may_have(client: Client, path: str, field: str, first: bool) -> None:
    client.force_login(User.objects.create_superuser("root"))
    prefixes = ("resources", "demands", "capacities", "step_times", "memberships")
    sizes = {f"{one}-{what}": size for one in prefixes for what, size in (("TOTAL_FORMS", 1), ("INITIAL_FORMS", 0))}
    page = html.unescape(client.post(f"/admin/{path}/add/", {**sizes, field: "two words"}).text)
    words = "letters, digits, dots, dashes and underscores, first a letter or a digit"
    may = words if first else "letters, digits, dashes and underscores"
    assert f"Expected {may}, got “two words”." in page
    assert "slug" not in re.sub(r"<[^>]*>", "", page)


@pytest.mark.parametrize(
    "path", ["cluster/machinetype", "cluster/server", "cluster/modelprofile", "accounts/clusterteams"]
)
def test_fields_that_choose_have_names_while_nothing_is_chosen(operator: Client, lab: Cluster, path: str) -> None:
    operator.force_login(User.objects.create_superuser("root"))
    Team.objects.create(name="vision", title="Vision")
    page = operator.get(f"/admin/{path}/add/").text
    assert re.search(rf'<option value="{lab.pk}"[^>]*>{lab}</option>', page), "a plain list, which has a label"
    assert "admin-autocomplete" not in page
    assert "selectfilter" not in page
    assert ('type="checkbox" name="teams"' in page) == (path == "accounts/clusterteams")
    assert 'data-placeholder="Choose a user"' in operator.get("/admin/accounts/team/add/").text


def test_a_name_that_is_taken_is_an_error_of_its_field(operator: Client, lab: Cluster) -> None:
    answer = operator.post(url("cluster", "add"), cluster_form(name="lab"))
    assert answer.context["adminform"].errors == {"name": ["Cluster with this Name already exists."]}
    server = lab.servers.all()[0]
    entries = server_form(server, 2, cluster=lab.pk) | {"capacities-INITIAL_FORMS": 0}
    entries = {key: value for key, value in entries.items() if not key.endswith(("-id", "-server"))}
    answer = operator.post(url("server", "add"), entries)
    assert answer.context["adminform"].errors == {"__all__": ["Server with this Cluster and Name already exists."]}
    assert (Cluster.objects.count(), Server.objects.filter(name=server.name).count()) == (1, 1)


@pytest.mark.parametrize("delay", ["nan", "inf", "-1", "1e300"])
def test_a_nonsense_delay_is_refused(operator: Client, lab: Cluster, delay: str) -> None:
    server = lab.servers.all()[0]
    answer = operator.post(url("server", "change", server.pk), server_form(server, 2, upload_delay_s=delay))
    assert "errornote" in answer.content.decode()
    assert Server.objects.get(pk=server.pk).upload_delay_s == server.upload_delay_s


def test_a_save_with_its_inlines_is_reported_once(operator: Client, lab: Cluster, room: Room) -> None:
    server = lab.servers.all()[0]
    answer = operator.post(url("server", "change", server.pk), server_form(server, 7, upload_delay_s=5))
    assert answer.status_code == 302
    assert room.calls == 1
    assert server.capacities.order_by("resource__position")[0].amount == 7


def test_a_refused_change_stores_nothing_and_says_why(operator: Client, lab: Cluster, room: Room) -> None:
    room.problems = ["Server edge-001 has 3 GPUs committed."]
    server = lab.servers.all()[0]
    before = export_cluster(lab)
    answer = operator.post(url("server", "change", server.pk), server_form(server, 0, upload_delay_s=5))
    assert answer.status_code == 200
    assert "Server edge-001 has 3 GPUs committed." in answer.content.decode()
    assert export_cluster(Cluster.objects.get()) == before
    assert room.calls == 0


@pytest.mark.parametrize("changes", [{"epoch_1": "01:00:00"}, {"clock_kind": "real"}])
def test_the_time_line_is_fixed_once_something_is_recorded(
    operator: Client, lab: Cluster, room: Room, changes: dict[str, str]
) -> None:
    room.history = True
    answer = operator.post(url("cluster", "change", lab.pk), cluster_form(lab, **changes))
    assert "cannot change: recorded bids" in answer.content.decode()
    room.history = False
    assert operator.post(url("cluster", "change", lab.pk), cluster_form(lab, **changes)).status_code == 302


def test_all_of_a_time_line_that_cannot_change_is_named(operator: Client, lab: Cluster, room: Room) -> None:
    room.history = True
    changes = {"epoch_1": "01:00:00", "clock_kind": "real"}
    page = operator.post(url("cluster", "change", lab.pk), cluster_form(lab, **changes)).content.decode()
    assert "The epoch cannot change" in page
    assert "The kind of clock cannot change" in page


def test_a_cluster_keeps_its_name_and_a_machine_type_its_role(operator: Client, lab: Cluster) -> None:
    body = cluster_form(lab, name="other", title="Other title")
    assert operator.post(url("cluster", "change", lab.pk), body).status_code == 302
    lab.refresh_from_db()
    assert (lab.name, lab.title) == ("lab", "Other title")
    kind = lab.machine_types.filter(role="worker")[0]
    demands = [
        {"id": one.pk, "machine_type": kind.pk, "resource": one.resource_id, "amount": one.amount}
        for one in kind.demands.all()
    ]
    form = {"role": "ps", "name": "renamed", "bandwidth_mbps": 10, "position": 0}
    form |= rows("demands", demands, initial=len(demands))
    assert operator.post(url("machinetype", "change", kind.pk), form).status_code == 302
    kind.refresh_from_db()
    assert (kind.role, kind.name) == ("worker", "renamed")


def test_a_refused_deletion_is_said_and_deletes_nothing(operator: Client, lab: Cluster, room: Room) -> None:
    room.problems = ["Server edge-001 holds machines."]
    server = lab.servers.all()[0]
    one = operator.post(url("server", "delete", server.pk), {"post": "yes"}, follow=True)
    chosen = {"action": "delete_selected", "_selected_action": [server.pk], "post": "yes"}
    many = operator.post(url("server", "changelist"), chosen, follow=True)
    for answer in (one, many):
        assert "Server edge-001 holds machines." in answer.content.decode()
    assert lab.servers.count() == 3
    room.problems = []
    operator.post(url("server", "delete", server.pk), {"post": "yes"})
    assert lab.servers.count() == 2


def test_a_type_that_takes_nothing_is_refused(operator: Client, lab: Cluster) -> None:
    body = {"cluster": lab.pk, "role": "worker", "name": "idle", "bandwidth_mbps": 10, "position": 0}
    answer = operator.post(url("machinetype", "add"), body | rows("demands", []))
    assert "expected a demand of at least one resource, got none" in answer.content.decode()
    assert not MachineType.objects.filter(name="idle").exists()


def test_a_demand_on_another_clusters_resource_is_refused(operator: Client, lab: Cluster) -> None:
    other = import_cluster(edge_cloud_document(np.random.default_rng(1), name="elsewhere", edge_servers=1, types=1))
    alien = Resource.objects.filter(cluster=other)[0]
    body = {"cluster": lab.pk, "role": "worker", "name": "odd", "bandwidth_mbps": 10, "position": 0}
    answer = operator.post(url("machinetype", "add"), body | rows("demands", [{"resource": alien.pk, "amount": 1}]))
    assert answer.status_code == 200
    assert "errornote" in answer.content.decode()
    assert not Demand.objects.filter(resource=alien, machine_type__cluster=lab).exists()


def test_without_a_cluster_that_alone_is_wrong(operator: Client, lab: Cluster) -> None:
    resource = Resource.objects.get(cluster=lab, position=0)
    body = {"name": "new", "kind": "edge", "cluster": "", "upload_delay_s": 0, "storage_mb": ""}
    body |= rows("capacities", [{"resource": resource.pk, "amount": 1}])
    page = operator.post(url("server", "add"), body).content.decode()
    assert "This field is required" in page
    assert "belongs to another cluster" not in page


def test_only_the_clusters_own_resources_are_offered(operator: Client, lab: Cluster) -> None:
    other = import_cluster(edge_cloud_document(np.random.default_rng(1), name="elsewhere", edge_servers=1, types=1))
    page = operator.get(url("server", "change", lab.servers.all()[0].pk)).content.decode()
    for resource in lab.resources.all():
        assert f'<option value="{resource.pk}"' in page
    for resource in other.resources.all():
        assert f'<option value="{resource.pk}"' not in page


def test_a_server_of_no_capacity_is_stored_with_a_warning(operator: Client, lab: Cluster) -> None:
    body = {"cluster": lab.pk, "name": "empty", "kind": "edge", "upload_delay_s": 0, "position": 0}
    answer = operator.post(url("server", "add"), body | rows("capacities", []), follow=True)
    assert "Server empty has no capacity" in answer.content.decode()
    assert [server.name for server in lab.servers.all()][-1] == "empty"


@pytest.mark.thorough
def test_301_servers_take_few_queries(operator: Client, django_assert_max_num_queries: Any) -> None:
    big = import_cluster(edge_cloud_document(np.random.default_rng(1), name="big", edge_servers=300))
    with django_assert_max_num_queries(14):
        operator.get(url("server", "changelist"))
    with django_assert_max_num_queries(20):
        page = operator.get(url("server", "change", big.servers.all()[5].pk))
    assert len(page.content) < 200_000
    with django_assert_max_num_queries(20):
        assert "301 servers" in operator.get(url("cluster", "change", big.pk)).content.decode()


def test_a_virtual_clock_is_started_stopped_and_sped_up(operator: Client, lab: Cluster) -> None:
    def act(name: str) -> Cluster:
        operator.post(url("cluster", "changelist"), {"action": name, "_selected_action": [lab.pk]})
        return Cluster.objects.get(pk=lab.pk)

    assert act("start_clock").clock_running
    assert act("run_faster").clock_speed == 2
    assert act("run_slower").clock_speed == 1
    assert not act("stop_clock").clock_running


def test_a_real_clock_says_that_it_cannot_be_stopped(operator: Client, lab: Cluster) -> None:
    Cluster.objects.update(clock_kind="real")
    body = {"action": "stop_clock", "_selected_action": [lab.pk]}
    assert "runs on real time" in operator.post(url("cluster", "changelist"), body, follow=True).content.decode()


def test_the_export_is_what_the_import_page_reads(operator: Client, lab: Cluster) -> None:
    body = {"action": "export_json", "_selected_action": [lab.pk]}
    exported = operator.post(url("cluster", "changelist"), body).content
    assert exported.decode() == document_text(lab)
    renamed = json.dumps(json.loads(exported) | {"name": "copy"}).encode()
    answer = operator.post(url("cluster", "import"), {"document": SimpleUploadedFile("copy.json", renamed)})
    copy = Cluster.objects.get(name="copy")
    assert answer.status_code == 302
    assert export_cluster(copy) == export_cluster(lab) | {"name": "copy"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "expected JSON"),
        (b"\xff\xfe", "expected JSON"),
        (b"{}", "name: missing"),
        (b"[]", "expected an object"),
        (b"[" * 100_000, "expected JSON"),
        (b"1" * 5000, "expected JSON"),
    ],
)
def test_a_wrong_document_is_a_form_error(operator: Client, content: bytes, words: str) -> None:
    answer = operator.post(url("cluster", "import"), {"document": SimpleUploadedFile("x.json", content)})
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert not Cluster.objects.exists()


def test_strangers_do_not_enter(client: Client, lab: Cluster) -> None:
    client.force_login(User.objects.create(username="bob", is_staff=True))
    assert client.get(url("cluster", "import"), follow=True).status_code == 403
    assert client.get(url("server", "changelist"), follow=True).status_code == 403
    deletion = client.post(url("server", "delete", lab.servers.all()[0].pk), {"post": "yes"}, follow=True)
    assert deletion.status_code == 403
    assert Capacity.objects.count() == 6
