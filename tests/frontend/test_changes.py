"""The record of who changed what: pages, REST and the admin alike, before and after, and nothing of submissions."""

import csv
from datetime import timedelta
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import teams
from accounts.models import ClusterTeams, Invitation, Role
from accounts.rights import rights_of
from auctions.engine import decision_queue
from auctions.engine.policies import change_policy
from auctions.models import Bid, Market
from auctions.webhooks import hooks
from auctions.webhooks.hooks import WebhookRequest
from cluster import changes, clock
from cluster.documents import export_cluster, import_cluster
from tests.auctions.worlds import body, make_cluster, make_market, make_user, set_time, submit

JSON: Any = {"content_type": "application/json"}


def last() -> LogEntry:
    return LogEntry.objects.order_by("-pk")[0]


def known_as(entry: LogEntry) -> tuple[str, str, str]:
    """The change, the user who made it, and the interface."""
    data = entry.additional_data
    return data["what"], data["who"], data["via"]


@pytest.fixture
def bid(market: Market, alice: User) -> Bid:
    made = submit(market, alice)
    decision_queue.process_pending(market.pk)
    made.refresh_from_db()
    return made


def test_a_token_for_a_password_is_a_change_by_its_user(alice: User) -> None:
    alice.set_password("alice-password")
    alice.save()
    answer = Client().post("/api/v1/token", {"username": "alice", "password": "alice-password"}, **JSON)
    assert answer.status_code == 200, answer.content
    assert known_as(last()) == ("token created", "alice", "REST")
    assert last().actor == alice


def test_a_job_cancelled_by_rest_with_a_token_is_the_users_from_its_address(bid: Bid) -> None:
    answer = Client(REMOTE_ADDR="192.0.2.7").post(
        "/api/v1/token", {"username": "alice", "password": "alice-password"}, **JSON
    )
    if answer.status_code != 200:
        bid.owner.set_password("alice-password")
        bid.owner.save()
        answer = Client().post("/api/v1/token", {"username": "alice", "password": "alice-password"}, **JSON)
    headers = {"Authorization": f"Token {answer.json()['token']}", "X-Forwarded-For": "10.9.9.9"}
    client = Client(REMOTE_ADDR="192.0.2.7", headers=headers)
    done = client.post("/api/v1/clusters/lab/bids/1/cancel", **JSON)
    assert done.status_code == 200, done.content
    entry = last()
    assert known_as(entry) == ("job cancelled", "alice", "REST")
    assert entry.actor == bid.owner
    assert entry.remote_addr == "192.0.2.7"
    assert entry.cid == done.headers["X-Request-ID"]
    assert entry.object_repr == "bid 1 of lab"
    assert entry.changes["state"] == [bid.state, "cancelled"]
    assert set(entry.changes) == {"state", "ended_slot"}


def test_a_bid_withdrawn_on_its_page_is_recorded_once_and_a_refusal_is_not(
    market: Market, alice: User, as_alice: Client
) -> None:
    submit(market, alice)
    for _ in range(2):
        as_alice.post("/markets/lab/bids/1/withdraw/")
    (entry,) = LogEntry.objects.filter(additional_data__cluster="lab", additional_data__what="bid withdrawn")
    assert known_as(entry) == ("bid withdrawn", "alice", "page")
    assert entry.changes == {"state": ["submitted", "withdrawn"]}


def test_what_was_before_is_what_the_row_had(market: Market, alice: User, as_alice: Client) -> None:
    set_time(market, 50)
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.state == "planned"
    assert bid.start_slot is not None
    set_time(market, bid.start_slot * 100)  # its job begins in the transaction that cancels it
    assert as_alice.post("/api/v1/clusters/lab/bids/1/cancel", **JSON).status_code == 200
    assert last().changes["state"] == ["running", "cancelled"]


def test_invitations_and_new_secrets_of_webhooks_are_recorded(market: Market, alice: User, as_alice: Client) -> None:
    vision = teams.create_team("vision", "Vision", administrator=alice)
    as_alice.post("/account/team/", {"role": "operator", "days": "7"})
    made = last()
    assert known_as(made) == ("invitation created", "alice", "page")
    assert made.changes["role"] == ["None", "operator"]
    assert ("invitation created", "Invitation to Vision") in read_by(alice)
    as_alice.post(f"/account/team/invitations/{Invitation.objects.get().pk}/withdraw/")
    assert known_as(last()) == ("invitation deleted", "alice", "page")
    assert last().additional_data["team"] == vision.pk
    webhook = hooks.create(alice, WebhookRequest("chat", "https://example.org/")).webhook
    as_alice.post(f"/api/v1/webhooks/{webhook.pk}/rotate", {}, **JSON)
    assert known_as(last()) == ("webhook changed", "alice", "REST")
    assert last().changes == {"secret": ["hidden", "hidden"]}


def test_servers_policies_and_markets_are_recorded_with_what_was_before(market: Market, as_operator: Client) -> None:
    as_operator.post("/markets/lab/servers/edge-0/lost/", {"reason": "smoke"})
    assert known_as(last()) == ("server lost", "olga", "page")
    assert last().changes["service"] == ["in service", "lost"]
    as_operator.post("/api/v1/clusters/lab/servers/edge-0/restore", {}, **JSON)
    assert known_as(last()) == ("server returned to service", "olga", "REST")
    assert last().changes["service"] == ["lost", "in service"]
    change_policy(market, name="fifo", parameters={}, by=None)
    entry = last()
    assert entry.additional_data["what"] == "policy changed"
    assert entry.changes["policy"] == ["dps", "fifo"]


def test_a_document_is_recorded_field_by_field_whoever_brings_it(market: Market) -> None:
    document = export_cluster(market.cluster)
    import_cluster(document)
    document["horizon_slots"] = 13
    document["servers"][0]["capacity"]["gpu"] = 5
    import_cluster(document)
    entry = last()
    assert entry.additional_data["what"] == "cluster changed"
    assert entry.changes == {"horizon_slots": ["12", "13"], "servers.edge-0.capacity.gpu": ["4", "5"]}
    count = LogEntry.objects.count()
    import_cluster(document)
    assert LogEntry.objects.count() == count


def test_users_and_their_groups_are_recorded_and_passwords_are_not(db: None) -> None:
    root = make_user("root", is_superuser=True)
    client = Client()
    client.force_login(root)
    carol = make_user("carol")
    group = Group.objects.create(name="others")
    carol.groups.add(group)
    assert last().changes["groups"] == {"type": "m2m", "operation": "add", "objects": ["others"]}
    carol.set_password("a new secret")
    carol.save()
    assert last().changes == {"password": ["hidden", "hidden"]}
    answer = client.post(
        f"/admin/auth/user/{carol.pk}/password/",
        {"password1": "another-Secret-7", "password2": "another-Secret-7", "usable_password": "true"},
    )
    assert answer.status_code in (200, 302)
    carol.delete()
    assert last().additional_data["what"] == "user deleted"
    text = str(list(LogEntry.objects.values_list("changes", "serialized_data", "object_repr")))
    assert "pbkdf2" not in text
    assert "secret" not in text.lower()


def test_tokens_are_recorded_without_what_they_are(alice: User, as_alice: Client) -> None:
    made = as_alice.post("/api/v1/tokens", {"name": "laptop", "scope": "bid"}, **JSON)
    assert made.status_code == 201, made.content
    entry = last()
    assert known_as(entry) == ("token created", "alice", "REST")
    assert entry.changes["scope"] == ["None", "bid"]
    assert set(entry.changes) == {"user", "name", "scope", "cluster", "expires_at"}
    assert "digest" not in str(entry.changes)


def test_a_new_user_is_recorded_by_the_columns_of_the_table(db: None) -> None:
    carol = User.objects.create(username="carol")
    entry = LogEntry.objects.get(object_id=carol.pk, action=LogEntry.Action.CREATE, content_type__model="user")
    assert {"username", "password", "is_active"} <= set(entry.changes)
    assert not {"bids", "plans", "last_login", "date_joined"} & set(entry.changes)


def test_an_entry_is_rolled_back_with_its_change(market: Market) -> None:
    count = LogEntry.objects.count()
    with transaction.atomic():
        User.objects.create(username="dora")
        assert LogEntry.objects.count() > count
        transaction.set_rollback(True)
    assert LogEntry.objects.count() == count


def test_submissions_and_decisions_add_neither_entries_nor_queries(
    market: Market, alice: User, as_alice: Client
) -> None:
    as_alice.post("/api/v1/clusters/lab/bids", body(), **JSON)
    decision_queue.process_pending(market.pk)
    count = LogEntry.objects.count()
    with CaptureQueriesContext(connection) as asked:
        as_alice.post("/api/v1/clusters/lab/bids", body(), **JSON)
        decision_queue.process_pending(market.pk)
    assert not [one["sql"] for one in asked if "auditlog" in one["sql"]]
    assert LogEntry.objects.count() == count


def test_what_workers_do_is_no_change_by_anybody(bid: Bid, market: Market) -> None:
    from auctions.domain import transitions

    count = LogEntry.objects.count()
    transitions.fail(bid, slot=0, reason="a server was lost", refund=0.0)
    assert LogEntry.objects.count() == count
    assert not changes.in_request()


def test_the_page_says_that_its_csv_file_leaves_out_older_entries(
    as_operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        changes.note(User.objects.get(username="olga"), "tried", {"x": (1, 2)})
    count = LogEntry.objects.count()
    monkeypatch.setattr("frontend.views.changes.MOST_ROWS", count)
    assert "The CSV file has" not in as_operator.get("/changes/").text
    monkeypatch.setattr("frontend.views.changes.MOST_ROWS", count - 1)
    words = f"The CSV file has the newest {count - 1} of these {count} rows"
    assert words in as_operator.get("/changes/").text


def test_filters_in_the_address_choose_and_the_csv_has_each_field(
    bid: Bid, as_alice: Client, as_operator: Client
) -> None:
    as_alice.post("/markets/lab/bids/1/cancel/")
    as_operator.post("/markets/lab/servers/edge-0/lost/", {"reason": "=cmd()"})
    today, tomorrow = clock.now().date(), clock.now().date() + timedelta(days=1)
    for query, whats in (
        ("who=alice", {"job cancelled"}),
        ("what=server", {"server lost"}),
        (f"cluster=lab&since={today}", {"job cancelled", "server lost"}),
        ("cluster=another", set()),
        (f"since={tomorrow}", set()),
        (f"who=olga&until={today}", {"server lost"}),
        ("since=yesterday", set()),
        ("until=9999-12-31", set()),
    ):
        page = as_operator.get(f"/changes/?{query}")
        assert {row.what for row in page.context["rows"]} >= whats
        if not whats:
            assert b"No change matches these filters" in page.content
        rows = list(csv.DictReader(as_operator.get(f"/changes.csv?{query}").content.decode().splitlines()))
        assert {row["what"] for row in rows} == {row.what for row in page.context["rows"]}
    rows = list(csv.DictReader(as_operator.get("/changes.csv?what=server+lost").content.decode().splitlines()))
    assert ("reason", "", "'=cmd()") in {(row["field"], row["before"], row["after"]) for row in rows}


def read_by(user: User) -> set[tuple[str, str]]:
    """What a user reads in the record: each change and the row that was changed, as in the CSV file."""
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    page, file = client.get("/changes/"), client.get("/changes.csv")
    assert page.status_code == file.status_code
    if page.status_code == 404:
        return set()
    rows = list(csv.DictReader(file.content.decode().splitlines()))
    found = {(row["what"], row["which"]) for row in rows}
    assert {(row.what, row.which) for row in page.context["rows"] if row.fields} <= found
    addresses = {row["address"] for row in rows} | {row.address for row in page.context["rows"]}
    assert ("127.0.0.1" in addresses) == rights_of(user).operates_all
    return found


def test_administrators_of_a_team_and_operators_of_a_cluster_read_the_changes_of_these_alone(
    bid: Bid, as_operator: Client, as_alice: Client
) -> None:
    hall = make_market(make_cluster("hall"))
    people = {role: make_user(str(role)) for role in Role}
    vision, speech = teams.create_team("vision", "Vision"), teams.create_team("speech", "Speech")
    for role, user in people.items():
        teams.add_member(vision, user, role)
    ClusterTeams.objects.create(cluster=hall.cluster, operated_by=vision)
    own = submit(bid.market, people[Role.BIDDER])
    client = Client()
    client.force_login(people[Role.BIDDER])
    client.post(f"/markets/lab/bids/{own.sequence}/withdraw/")
    as_alice.post("/markets/lab/bids/1/cancel/")
    for team in (vision, speech):
        as_operator.post(f"/teams/{team.name}/credits/budget/", {"budget-period": "week", "budget-credits": "5"})
    for cluster in ("lab", "hall"):
        as_operator.post(f"/markets/{cluster}/servers/edge-0/lost/", {"reason": "smoke"})
    of_hall = {("server lost", "server edge-0 of hall"), ("teams of clusters created", "Teams of Hall")}
    of_team = {
        ("team created", "Vision"),
        ("budget set", "Budget of Vision"),
        ("bid withdrawn", f"bid {own.sequence} of lab"),
        *(("membership created", f"{role} in Vision") for role in Role),
    }
    of_others = {
        ("team created", "Speech"),
        ("budget set", "Budget of Speech"),
        ("job cancelled", "bid 1 of lab"),
        ("server lost", "server edge-0 of lab"),
    }
    everything = read_by(User.objects.get(username="olga"))
    assert everything >= of_hall | of_team | of_others
    by_administrator, by_operator = read_by(people[Role.ADMINISTRATOR]), read_by(people[Role.OPERATOR])
    assert by_administrator - by_operator == of_team
    assert by_operator >= of_hall
    assert all("hall" in which.lower() for _, which in by_operator)
    assert not (by_administrator | by_operator) & of_others
    for stranger in (people[Role.BIDDER], people[Role.VIEWER], bid.owner, make_user("charlie")):
        assert read_by(stranger) == set()
    teams.change_role(vision, vision.memberships.get(user=people[Role.VIEWER]), Role.ADMINISTRATOR)
    ClusterTeams.objects.all().delete()
    assert read_by(people[Role.OPERATOR]) == set()
    assert ("membership changed", "viewer in Vision") in read_by(people[Role.VIEWER])


def test_truth_values_are_words_and_a_text_that_looks_like_one_stays(market: Market, as_operator: Client) -> None:
    row = ClusterTeams.objects.create(cluster=market.cluster)
    row.needs_team = True
    row.save()
    team = teams.create_team("vision", "False")
    team.title = "True"
    team.save()
    assert "<del>no</del> → <ins>yes</ins>" in as_operator.get("/changes/").text
    rows = list(csv.DictReader(as_operator.get("/changes.csv").text.splitlines()))
    kinds = ("team changed", "teams of clusters changed")
    found = {one["field"]: (one["before"], one["after"]) for one in rows if one["what"] in kinds}
    assert found == {"needs_team": ("no", "yes"), "title": ("False", "True")}


def test_the_library_has_no_page_in_the_admin(market: Market) -> None:
    client = Client()
    client.force_login(make_user("root", is_superuser=True))
    assert client.get("/admin/auditlog/logentry/").status_code == 404
