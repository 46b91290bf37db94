"""The audit: clean on an honest market, and it finds every kind of row that was tampered with."""

import gc
import json
import sys
from collections.abc import Callable
from functools import partial
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from auctions.domain.standing_rule import RULE
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.history import recorded
from auctions.history.audit import CHECKS, CHECKS_OF_TEAMS, Finding, _rows, audit_market
from auctions.history.audit_pass import EventPass
from auctions.models import (
    Bid,
    BidState,
    Certificate,
    Commitment,
    DecisionRecord,
    Event,
    EventKind,
    Market,
    Payment,
    PolicyVersion,
    Publication,
    Seal,
    SlotPrice,
)
from auctions.readings import certificates
from cluster.database.paging import pages
from tests.auctions.worlds import make_cluster, make_market, make_user, set_time, submit


@pytest.fixture(scope="module")
def kept(kept_rows: None) -> int:
    """A market with bids of five owners in every state but failed."""
    market, alice = make_market(), make_user("alice")
    owners = [alice, *(make_user(name) for name in ("bob", "carol", "dave", "erin"))]
    for i in range(24):
        submit(market, owners[i % 5], 20.0 * (1 + i % 5), epochs=1 + i % 7)
    decision_queue.process_pending(market.pk)
    set_time(market, 310.0)
    pass_slots(market.pk)
    change_policy(market, name="dps", parameters={"price": "paper"}, by=alice)
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    withdraw_bid(submit(market, alice))
    cancel_job(Bid.objects.filter(state=BidState.PLANNED).latest("sequence"))
    certificates.renew(market.pk)
    return market.pk


@pytest.fixture
def busy(kept: int, db: None) -> Market:
    """The market as every test finds it."""
    return Market.objects.get(pk=kept)


def admitted() -> Bid:
    return Bid.objects.filter(state__in=[BidState.RUNNING, BidState.PLANNED]).order_by("sequence").first() or Bid()


def change_receipt(old: str, new: str) -> None:
    record = DecisionRecord.objects.get(bid=admitted())
    assert old in record.receipt
    DecisionRecord.objects.filter(pk=record.pk).update(receipt=record.receipt.replace(old, new, 1))


def change_core(**fields: object) -> None:
    bid = admitted()
    Bid.objects.filter(pk=bid.pk).update(core_bid=bid.core_bid | fields)


def change_document(field: str, **fields: object) -> None:
    bid = admitted()
    Bid.objects.filter(pk=bid.pk).update(**{field: getattr(bid, field) | fields})


def change_payload(kind: EventKind, **fields: object) -> None:
    event = Event.objects.filter(kind=kind).latest("version")
    Event.objects.filter(pk=event.pk).update(payload=event.payload | fields)


def change_publication(**fields: object) -> None:
    row = Publication.objects.get()
    Publication.objects.filter(pk=row.pk).update(figures=row.figures | fields)


def seal_of_another_market() -> Seal:
    other = make_market(make_cluster("other"))
    return Seal.objects.create(market=other, number=1, version=1, slot=1, file_bytes=1, sealed_at=now())


def change_slot(**fields: object) -> None:
    assert SlotPrice.objects.filter(slot=2).update(**fields) == 1


TAMPERINGS: dict[str, tuple[Callable[[], object], set[str]]] = {
    "a value": (
        lambda: Bid.objects.filter(pk=admitted().pk).update(value=F("value") + 1),
        {"receipts match rows", "welfare is payoff plus revenue"},
    ),
    "a payment": (
        lambda: Bid.objects.filter(pk=admitted().pk).update(payment=F("payment") / 2),
        {"receipts match rows", "payments are charged once, as decided"},
    ),
    "a charge": (
        lambda: Payment.objects.filter(bid=admitted()).update(amount=F("amount") + 0.01),
        {"payments are charged once, as decided"},
    ),
    "a charge gone": (
        lambda: Payment.objects.filter(bid=admitted()).delete(),
        {"payments are charged once, as decided"},
    ),
    "a state": (
        lambda: Bid.objects.filter(pk=admitted().pk).update(state=BidState.REJECTED),
        {"every bid is accounted for", "receipts match rows", "commitments are the schedules granted"},
    ),
    "a state ahead of time": (
        lambda: Bid.objects.filter(state=BidState.RUNNING).update(state=BidState.COMPLETED),
        {"states agree with the slot"},
    ),
    "a commitment's count": (
        lambda: Commitment.objects.filter(bid=admitted()).update(count=50),
        {"commitments are the schedules granted", "no server is over capacity"},
    ),
    "a commitment's window": (
        lambda: Commitment.objects.filter(bid=admitted()).update(end=F("end") + 1),
        {"commitments are the schedules granted"},
    ),
    "a commitment gone": (
        lambda: Commitment.objects.filter(bid=admitted()).delete(),
        {"commitments are the schedules granted"},
    ),
    "a receipt's explanation": (
        lambda: change_receipt('"explanation":"', '"explanation":"!'),
        {"replay gives every receipt byte for byte"},
    ),
    "a standalone value": (
        lambda: DecisionRecord.objects.filter(bid=admitted()).update(standalone_value=0.0),
        {"receipts match rows"},
    ),
    "an event gone": (
        lambda: Event.objects.filter(kind=EventKind.ADMITTED).order_by("version")[3].delete(),
        {"events are contiguous", "every decided bid has one receipt", "every bid is accounted for"},
    ),
    "an event's slot": (
        lambda: Event.objects.filter(kind=EventKind.ADMITTED, bid=admitted()).update(slot=F("slot") + 1),
        {"replay gives every receipt byte for byte"},
    ),
    "an inventory": (
        lambda: Event.objects.filter(kind=EventKind.OPENED).update(payload={}),
        {"replay gives every receipt byte for byte"},
    ),
    "a policy's parameters": (
        lambda: PolicyVersion.objects.filter(number=1).update(parameters={"price": "paper"}),
        {"policies are as their events say"},
    ),
    "the policy of a decision": (
        lambda: DecisionRecord.objects.filter(bid=admitted()).update(policy=PolicyVersion.objects.get(number=2)),
        {"policies are as their events say"},
    ),
    "the market's version": (lambda: Market.objects.update(version=F("version") + 1), {"events are contiguous"}),
    "the rule of standing bids": (
        lambda: Market.objects.update(standing_rule=RULE.to_json() | {"every": RULE.every + 1}),
        {"replay gives every receipt byte for byte"},
    ),
    "the market's ledger version": (lambda: Market.objects.update(ledger_version=1), {"events are contiguous"}),
    "the last number given out": (
        lambda: Market.objects.update(submitted=F("submitted") + 1),
        {"sequence numbers have no gaps"},
    ),
    "an arrival": (
        lambda: Bid.objects.filter(pk=admitted().pk).update(arrival_slot=-1),
        {"nothing starts before arrival and upload"},
    ),
    "an upload delay": (
        lambda: change_core(delay=[99, 99, 99]),
        {"nothing starts before arrival and upload", "replay gives every receipt byte for byte"},
    ),
    "the work": (
        lambda: change_core(epochs=100),
        {"admitted jobs get their whole work", "replay gives every receipt byte for byte"},
    ),
    "prices kept of a slot": (
        lambda: change_slot(prices=[[9.0, 9.0]] * 3),
        {"slots are kept as they began"},
    ),
    "use kept of a slot": (lambda: change_slot(used=[[9, 9]] * 3), {"slots are kept as they began"}),
    "a slot gone": (lambda: SlotPrice.objects.filter(slot=2).delete(), {"slots are kept as they began"}),
    "what began": (
        lambda: change_payload(EventKind.SLOT, running=[]),
        {"states are what events made them"},
    ),
    "where slots begin": (lambda: change_payload(EventKind.SLOT, to=9), {"states are what events made them"}),
    "when it was cancelled": (
        lambda: Event.objects.filter(kind=EventKind.CANCELLED).update(slot=F("slot") + 1),
        {"states are what events made them"},
    ),
    "who was withdrawn": (
        lambda: Event.objects.filter(kind=EventKind.WITHDRAWN).update(bid=admitted()),
        {"states are what events made them"},
    ),
    "when it was submitted": (
        lambda: Event.objects.filter(kind=EventKind.SUBMITTED, bid=admitted()).update(slot=F("slot") + 1),
        {"states are what events made them"},
    ),
    "the ledger it was decided against": (
        lambda: DecisionRecord.objects.filter(bid=admitted()).update(ledger_version=F("ledger_version") - 1),
        {"states are what events made them"},
    ),
    "the market's first free slot": (
        lambda: Market.objects.update(now=F("now") + 1),
        {"states are what events made them"},
    ),
    "a running job's end": (
        lambda: Bid.objects.filter(pk=admitted().pk).update(ended_slot=50),
        {"bids are what was sent"},
    ),
    "a body": (lambda: change_document("body", epochs=77), {"bids are what was sent"}),
    "a resolved request": (lambda: change_document("resolved_request", epochs=77), {"bids are what was sent"}),
    "a label": (lambda: Bid.objects.filter(pk=admitted().pk).update(label="mine"), {"bids are what was sent"}),
    "white space in a receipt": (
        lambda: change_receipt(",", ", "),
        {"replay gives every receipt byte for byte"},
    ),
    "a commitment's last slot": (
        lambda: Commitment.objects.filter(bid=admitted()).update(end=F("end") - 1),
        {"commitments are the schedules granted"},
    ),
    **{
        f"a certificate's {name}": (partial(Certificate.objects.update, **{name: to}), {"the certificate adds up"})
        for name, to in {
            "value": F("value") * 0.999,
            "zero_price": F("zero_price") * 0.9,
            "gap": 0.5,
            "decided": F("decided") - 1,
            "version": F("version") + 100,
            "welfare": F("welfare") - 1,
            "settled_bids": 3,
            "settled_capacity": 100.0,
            "settled_through": 10**6,
            "settled_loose": F("settled_bids") + 1,
            "loose": F("decided") + 1,
        }.items()
    },
    "the welfare that was published": (
        lambda: change_publication(welfare=1.0),
        {"published figures are those of events"},
    ),
    "how many were published as rejected": (
        lambda: change_publication(rejected=99),
        {"published figures are those of events"},
    ),
    "how many were published as completed": (
        lambda: change_publication(completed=99),
        {"published figures are those of events"},
    ),
    "the slot of a publication": (
        lambda: Publication.objects.update(slot=F("slot") + 1),
        {"published figures are those of events"},
    ),
    "the digest of a body": (
        lambda: Bid.objects.filter(pk=admitted().pk).update(body_digest="0" * 64),
        {"bids are what was sent"},
    ),
    "the seal of another market": (
        lambda: Bid.objects.filter(pk=admitted().pk).update(seal=seal_of_another_market()),
        {"outcomes of archived bids are as sealed"},
    ),
    "a publication of few owners": (
        lambda: Bid.objects.exclude(owner__username="alice").update(owner=admitted().owner),
        {"published figures are those of events"},
    ),
    "the policy that the market names": (
        lambda: Market.objects.update(policy_number=F("policy_number") - 1),
        {"policies are as their events say"},
    ),
    "a certificate": (lambda: Certificate.objects.update(value=1.0), {"welfare is below its certified bound"}),
}


@pytest.mark.thorough
def test_an_honest_market_passes_every_check(busy: Market) -> None:
    assert {f.check: f.rows for f in audit_market(busy)} == dict.fromkeys(CHECKS, ())
    states = set(Bid.objects.values_list("state", flat=True))
    assert states >= {BidState.RUNNING, BidState.COMPLETED, BidState.REJECTED, BidState.WITHDRAWN, BidState.CANCELLED}


@pytest.mark.thorough
@pytest.mark.parametrize("what", TAMPERINGS)
def test_tampering_is_found(busy: Market, what: str) -> None:
    tamper, expected = TAMPERINGS[what]
    tamper()
    busy.refresh_from_db()
    seen = EventPass(busy)
    assert {name for name in expected if _rows(CHECKS[name], seen)} == expected


def test_a_policy_of_another_market_is_found(busy: Market) -> None:
    other = make_market(make_cluster(name="other"))
    record = DecisionRecord.objects.select_related("bid").latest("pk")
    DecisionRecord.objects.filter(pk=record.pk).update(policy=PolicyVersion.objects.get(market=other))
    found = {finding.check: finding.rows for finding in audit_market(busy)}
    wrong = f"bid {record.bid.sequence} names a policy version of another market"
    assert found["policies are as their events say"] == (wrong,)


@pytest.mark.parametrize("column", ["body", "core_bid"])
def test_bids_with_damaged_documents_are_named_and_other_markets_are_audited(busy: Market, column: str) -> None:
    make_market(make_cluster(name="other"))
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE auctions_bid SET {column} = substr({column}, 1, length({column}) - 1) WHERE sequence = 3"
        )
    out = StringIO()
    with pytest.raises(CommandError, match="1 check failed"):
        call_command("audit", stdout=out)
    text = out.getvalue()
    assert f"FAIL {busy.cluster.name}: documents of bids can be read\n       bid 3: " in text
    assert "ok   other: replay gives every receipt byte for byte" in text


def test_what_happens_in_another_market_is_not_this_ones_fault(busy: Market) -> None:
    alice = User.objects.get(username="alice")
    other = make_market(make_cluster("other"))
    submit(other, alice)
    decision_queue.process_pending(other.pk)
    assert Bid.objects.filter(market=other, state__in=("planned", "running")).exists()
    assert [finding.check for finding in audit_market(busy) if not finding.passed] == []
    Payment.objects.filter(bid__market=other).delete()
    assert [finding.check for finding in audit_market(busy) if not finding.passed] == []
    assert [finding.check for finding in audit_market(other) if not finding.passed] != []


@pytest.mark.thorough
def test_the_command_exits_0_with_a_line_a_check(busy: Market) -> None:
    out = StringIO()
    call_command("audit", stdout=out)
    lines = out.getvalue().splitlines()
    assert len(lines) == len(CHECKS) + len(CHECKS_OF_TEAMS)
    assert all(line.startswith("ok") for line in lines)


@pytest.mark.thorough
def test_the_command_exits_1_with_the_offending_rows(busy: Market) -> None:
    bid = admitted()
    Payment.objects.filter(bid=bid).update(amount=0.125)
    out = StringIO()
    with pytest.raises(CommandError) as failure:
        call_command("audit", "--market", "lab", "--json", stdout=out)
    assert (failure.value.returncode, str(failure.value)) == (1, "2 checks failed")
    rows = json.loads(out.getvalue())["lab"]["payments are charged once, as decided"]
    assert rows == [f"bid {bid.sequence} ({bid.state}) was billed {bid.payment} and charged 0.125"]


def test_one_failed_check_is_said_in_the_singular(busy: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "auctions.management.commands.audit.audit_market"
    monkeypatch.setattr(command, lambda *_: (Finding("sums are right", ("bid 1",)), Finding("rows are right", ())))
    with pytest.raises(CommandError, match=r"^1 check failed$"):
        call_command("audit", "--market", "lab", stdout=StringIO())


def test_the_events_are_read_page_by_page_and_no_bid_is_kept(busy: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "pages", partial(pages, size=8))
    alive, steps = [], []

    def note(read: int, total: int) -> None:
        gc.collect()  # a bid and its receipt refer to each other
        alive.append(sum(isinstance(one, Bid) for one in gc.get_objects()))
        steps.append((read, total))

    assert [finding.rows for finding in audit_market(busy, note) if not finding.passed] == []
    assert max(alive) <= 16 < Bid.objects.count()
    assert steps == [(min(8 * (i + 1), busy.version), busy.version) for i in range(len(steps))]


def test_the_number_of_queries_does_not_depend_on_the_number_of_bids(busy: Market) -> None:
    with CaptureQueriesContext(connection) as before:
        audit_market(busy)
    for _ in range(5):
        submit(busy, User.objects.get(username="alice"), 40.0)
    decision_queue.process_pending(busy.pk)
    with CaptureQueriesContext(connection) as after:
        audit_market(busy)
    assert len(after) == len(before)


def test_slots_in_which_nothing_is_held_cost_the_audit_no_queries(busy: Market) -> None:
    with CaptureQueriesContext(connection) as before:
        audit_market(busy)
    set_time(busy, 1e9)
    job = submit(busy, User.objects.get(username="alice"), 500.0)
    decision_queue.process_pending(busy.pk)
    certificates.renew(busy.pk)
    with CaptureQueriesContext(connection) as after:
        assert [finding.rows for finding in audit_market(busy) if not finding.passed] == []
    assert len(after) <= len(before) + 5
    assert job.commitments.update(count=50) > 0
    assert "no server is over capacity" in {finding.check for finding in audit_market(busy) if not finding.passed}


def test_the_command_shows_a_bar_on_a_terminal_and_nothing_in_a_pipe(
    busy: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, pipe = StringIO(), StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stderr", stream)
        call_command("audit", stdout=StringIO())
    assert f"{busy.version}/{busy.version}" in terminal.getvalue()
    assert pipe.getvalue() == ""


def test_the_command_says_so_when_there_is_no_such_market(busy: Market) -> None:
    with pytest.raises(CommandError, match="expected a cluster with a market, got 'nowhere'"):
        call_command("audit", "--market", "nowhere")
