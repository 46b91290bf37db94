"""Archives: what leaves the database, what stays right without it, and what a kill or a changed byte leads to."""

import json
import lzma
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models import F

from auctions.counterfactual.alternatives import alternatives_of
from auctions.counterfactual.comparison import compare
from auctions.counterfactual.record import Record
from auctions.domain.errors import Archived
from auctions.domain.totals import figures_of, sums_by_state
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.slots import pass_slots
from auctions.history import archive_file, sealing
from auctions.history.archive_file import digest_of
from auctions.history.audit import audit_market
from auctions.history.audit_archives import archive_replays
from auctions.history.replay import replay_market
from auctions.history.sealing import Before, CannotArchive, archive
from auctions.models import (
    Bid,
    BidState,
    DecisionRecord,
    Event,
    EventKind,
    Market,
    Seal,
    Webhook,
    WebhookCursor,
)
from auctions.readings import certificates, market_readings
from auctions.state import book as books
from auctions.tasks import archive_old_events
from cluster import clock
from scheduling.model.decision import canonical, parse
from scheduling.registry import make_policy
from tests.auctions.worlds import SLOT_S, make_cluster, make_market, make_user, set_time, submit
from tests.histories.archiving import record_of
from tests.rows import taken_back

CUT = 5
"""The slot before which tests archive."""
SLOTS = 9


@pytest.fixture(scope="module")
def kept(kept_rows: None) -> int:
    """A market of some hours with bids of five owners, that stood, ran, were cancelled or withdrawn."""
    market, owners = make_market(), [make_user(name) for name in ("alice", "bob", "carol", "dave", "erin")]
    for slot in range(SLOTS):
        for i in range(5):
            standing = {"standing": True, "standing_until_s": 400.0} if i == 3 else {}
            submit(market, owners[i], 2.0 if i == 3 else 20.0 * (1 + i), epochs=1 + (slot + i) % 4, **standing)
        decision_queue.process_pending(market.pk)
        if slot == 1:
            withdraw_bid(submit(market, owners[0]))
            cancel_job(Bid.objects.filter(state=BidState.PLANNED).latest("sequence"))
        certificates.renew(market.pk)
        set_time(market, (slot + 1) * SLOT_S + 10.0)
        pass_slots(market.pk)
    return market.pk


@pytest.fixture
def old(kept: int, db: None) -> Market:
    """The market as every test finds it."""
    return Market.objects.select_related("cluster").get(pk=kept)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    """The directory of archives."""
    settings.ARCHIVE_DIR = tmp_path / "archives"
    return tmp_path / "archives"


def archived(market: Market, *, before: int = CUT, most: int = 10_000) -> list[Seal]:
    """Archive all that is before a slot, in pieces."""
    seals = []
    while seal := archive(market, Before(slot=before), most=most):
        seals.append(seal)
    market.refresh_from_db()
    return seals


def found(market: Market) -> dict[str, tuple[str, ...]]:
    """Return the checks of the audit that fail, with what they say."""
    return {one.check: one.rows for one in audit_market(market) if not one.passed}


def readings(market: Market) -> dict[str, Any]:
    """Return what pages show of the whole history of a market."""
    books.forget()
    end = market.slot + 5
    welfare, flow = market_readings.welfare(market), market_readings.flow(market)
    return {
        "figures": figures_of(sums_by_state(Bid.objects.filter(market=market))),
        "welfare": [
            welfare.welfare.tolist(),
            np.asarray(welfare.revenue).tolist(),
            np.asarray(welfare.zero_price_bound).tolist(),
        ],
        "flow": [flow.flow.tolist(), flow.mean.tolist()],
        "utilisation": market_readings.utilisation(market, start=0, end=end).used.tolist(),
        "prices": market_readings.prices(market, start=0, end=end).price.tolist(),
        "bars": market_readings.bars(market, start=0, end=end, viewer=None),
        "machines": [market_readings.machines(bid).workers.tolist() for bid in Bid.objects.filter(market=market)],
    }


def test_documents_and_events_leave_and_all_sums_stay(old: Market, folder: Path) -> None:
    before, record, events = readings(old), record_of(old, None), Event.objects.count()
    (seal,) = archived(old)
    gone = Bid.objects.filter(seal=seal)
    assert gone.count() == parse(seal.manifest)["archived"] >= 6
    assert {bid.state for bid in gone} >= {
        BidState.COMPLETED,
        BidState.REJECTED,
        BidState.WITHDRAWN,
        BidState.CANCELLED,
    }
    assert all(bid.body == bid.core_bid == bid.resolved_request == {} for bid in gone)
    assert set(DecisionRecord.objects.filter(bid__seal=seal).values_list("receipt", "costs")) == {("", None)}
    left = Event.objects.filter(version__lte=seal.version)
    assert set(left.filter(bid=None).values_list("kind", flat=True)) == {EventKind.OPENED, EventKind.POLICY}
    assert not left.filter(bid__seal__isnull=False).exists()
    assert Event.objects.count() < events - 20
    assert readings(old) == before
    assert record_of(old, folder) == record
    assert found(old) == {}
    assert archive_replays(old, seal) == []


def test_several_archives_are_a_chain(old: Market) -> None:
    seals = archived(old, most=20)
    assert len(seals) >= 3
    manifests = [parse(seal.manifest) for seal in seals]
    assert [one["previous"] for one in manifests] == ["", *(seal.digest for seal in seals[:-1])]
    assert [one["first_version"] for one in manifests[1:]] == [one["last_version"] + 1 for one in manifests[:-1]]
    assert [bool(seal.end_state) for seal in Seal.objects.order_by("number")] == [False] * (len(seals) - 1) + [True]
    # Jobs that were under way at a cut are archived at a later one.
    assert not Bid.objects.filter(seal=None, state=BidState.COMPLETED, completion_slot__lt=CUT).exists()
    assert found(old) == {}
    assert [archive_replays(old, seal) for seal in seals] == [[]] * len(seals)
    assert replay_market(old).mismatches == ()


def test_decisions_are_those_that_the_market_would_have_made(old: Market) -> None:
    live = submit(old, User.objects.get(username="bob"), 70.0, epochs=3)
    decision_queue.process_pending(old.pk)
    expected = DecisionRecord.objects.get(bid=live).receipt
    Event.objects.filter(bid=live).delete()
    DecisionRecord.objects.filter(bid=live).delete()
    live.commitments.all().delete()
    live.charge.delete()
    Bid.objects.filter(pk=live.pk).update(
        state=BidState.SUBMITTED, value=None, payment=None, start_slot=None, completion_slot=None
    )
    Market.objects.filter(pk=old.pk).update(version=old.version, ledger_version=old.ledger_version)
    archived(old)
    books.forget()
    decision_queue.process_pending(old.pk)
    assert parse(DecisionRecord.objects.get(bid=live).receipt) == parse(expected)


def test_a_process_that_missed_archived_events_reads_the_rows_again(old: Market) -> None:
    with_all = books.rebuild(old, now=old.now)
    stale = with_all.copy()
    stale.version = 12
    books.store(old, stale)
    archived(old)
    book = books.checkout(old, now=old.now)
    assert book.running.to_json() == with_all.running.to_json()


KILLS: dict[str, tuple[Any, str]] = {
    "before the file has its name": (Path, "replace"),
    "before the seal": (sealing, "_seal"),
    "in the transaction of the seal": (clock, "now"),
    "before documents leave": (sealing, "clear"),
    "while documents leave": (sealing, "_clear_documents"),
}


class Killed(Exception):
    """The process is gone."""


@pytest.mark.parametrize("when", KILLS)
def test_a_kill_loses_nothing_and_archiving_goes_on(
    old: Market, folder: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(old, None)
    target, name = KILLS[when]
    original, calls = getattr(target, name), []

    def killed(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if when == "while documents leave" and len(calls) < 3:
            return original(*args, **options)
        raise Killed

    monkeypatch.setattr(sealing, "AT_ONCE", 2)
    with monkeypatch.context() as patched:
        patched.setattr(target, name, killed)
        with pytest.raises(Killed):
            archive(old, Before(slot=CUT))
    old.refresh_from_db()
    assert bool(old.sealed_version) is (when in ("before documents leave", "while documents leave"))
    assert record_of(old, folder)["events"] == record["events"]
    assert found(old) == {}
    archived(old)
    assert Seal.objects.filter(cleared_at=None).count() == 0
    assert record_of(old, folder) == record
    assert found(old) == {}
    assert [archive_replays(old, seal) for seal in Seal.objects.all()] == [[]]
    assert all(bid.body == {} for bid in Bid.objects.filter(seal__isnull=False))


def test_of_two_that_archive_at_once_one_wins(old: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    original = archive_file.write

    def write(path: Path, data: bytes) -> None:
        monkeypatch.setattr(archive_file, "write", original)
        archive(old, Before(slot=CUT))
        original(path, data)

    monkeypatch.setattr(archive_file, "write", write)
    assert archive(old, Before(slot=CUT)) is None
    assert Seal.objects.count() == 1
    old.refresh_from_db()
    assert found(old) == {}


def change_file(folder: Path, change: Callable[[bytes], bytes]) -> None:
    path = folder / Seal.objects.get(number=2).file_name
    path.write_bytes(change(path.read_bytes()))


def reseal(number: int, **fields: object) -> None:
    """Change a manifest and compute its digest again."""
    seal = Seal.objects.get(number=number)
    manifest = canonical(parse(seal.manifest) | fields)
    Seal.objects.filter(pk=seal.pk).update(manifest=manifest, digest=digest_of(manifest))


def change_end_state() -> None:
    last = Seal.objects.latest("number")
    Seal.objects.filter(pk=last.pk).update(end_state=last.end_state.replace('"on_sale":', '"on_sale": '))


def delete_second(folder: Path) -> None:
    seal = Seal.objects.get(number=2)
    Bid.objects.filter(seal=seal).update(seal=Seal.objects.get(number=1))
    seal.delete()


TAMPERINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte": (
        lambda folder: change_file(folder, lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:]),
        "its bytes are not those that were sealed",
    ),
    "the end": (lambda folder: change_file(folder, lambda data: data[:-7]), "its bytes are not those that were sealed"),
    "a file gone": (
        lambda folder: (folder / Seal.objects.get(number=2).file_name).unlink(),
        "archive 2 is missing: there is no file",
    ),
    "a seal gone": (delete_second, "the chain is broken: archive 2 has no seal, archive 3 follows"),
    "a manifest": (lambda _: Seal.objects.filter(number=2).update(manifest="{}"), "its manifest in the database"),
    "a manifest and its digest": (lambda _: reseal(2, events=1), "archive 3: it is not so that it follows the seal"),
    "the state": (
        lambda _: change_end_state(),
        "the state at its end in the database is not the one that was sealed",
    ),
    "the cut of the market": (lambda _: Market.objects.update(sealed_version=F("sealed_version") - 1), "by its seals"),
    "a payment of an archived bid": (
        lambda _: Bid.objects.filter(pk=Bid.objects.filter(seal__isnull=False, payment__gt=0)[0].pk).update(
            payment=0.0
        ),
        "what the database has of its bids is not what was sealed",
    ),
    "an archived bid": (
        lambda _: Bid.objects.filter(pk=Bid.objects.filter(seal__number=2)[0].pk).update(seal=None),
        "instead of",
    ),
}


def test_tampering_is_found_and_named(old: Market, folder: Path, tmp_path: Path) -> None:
    assert len(archived(old, most=30)) >= 3
    copytree(folder, tmp_path / "untouched")
    for what, (tamper, expected) in TAMPERINGS.items():
        with taken_back():
            tamper(folder)
            old.refresh_from_db()
            assert expected in " ".join(row for rows in found(old).values() for row in rows), what
        rmtree(folder)
        copytree(tmp_path / "untouched", folder)
    old.refresh_from_db()
    assert found(old) == {}


def test_a_file_that_was_changed_and_sealed_again_is_found_by_a_replay(old: Market, folder: Path) -> None:
    (seal,) = archived(old)
    path = folder / seal.file_name
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    first, begin, *records, end = lines
    swapped = [line.replace('\\"admitted\\":true', '\\"admitted\\": true') for line in records]
    assert records != swapped
    manifest = canonical(parse(first) | {"records": digest_of("\n".join(swapped))})
    data = lzma.compress(("\n".join((manifest, begin, *swapped, end)) + "\n").encode())
    path.write_bytes(data)
    Seal.objects.update(manifest=manifest, digest=digest_of(manifest), file_sha256=digest_of(data))
    seal.refresh_from_db()
    assert "is decided otherwise when replayed" in " ".join(archive_replays(old, seal))


def test_its_summary_says_one_of_one() -> None:
    said = {"events": 1, "archived": 1, "first_version": 7, "last_version": 7}
    seal = Seal(manifest=json.dumps(said), file_bytes=900, slot=3)
    assert seal.summary == "1 event, 1 bid that is over, 900 bytes, versions 7 to 7, before slot 3"
    seal.manifest = json.dumps(said | {"events": 2, "archived": 0})
    assert seal.summary == "2 events, 0 bids that are over, 900 bytes, versions 7 to 7, before slot 3"


def test_a_record_that_does_not_replay_is_not_archived(old: Market, folder: Path) -> None:
    record = DecisionRecord.objects.filter(bid__state=BidState.COMPLETED).order_by("version")[0]
    DecisionRecord.objects.filter(pk=record.pk).update(receipt=record.receipt.replace("Admitted", "admitted"))
    events = Event.objects.count()
    with pytest.raises(CannotArchive, match="is decided otherwise when replayed"):
        archive(old, Before(slot=CUT))
    assert (Event.objects.count(), Seal.objects.count(), folder.exists()) == (events, 0, False)


def test_events_stay_that_messages_are_still_made_of(old: Market) -> None:
    hook = Webhook.objects.create(
        owner=User.objects.get(username="bob"), name="x", url="https://x.test", secret="s", created_at=clock.now()
    )
    WebhookCursor.objects.create(webhook=hook, market=old, version=20)
    (seal,) = archived(old)
    assert seal.version <= 20


def test_events_stay_that_a_webhook_older_than_the_market_has_not_begun_to_read(old: Market) -> None:
    bob = User.objects.get(username="bob")
    # It has no cursor: while a thousand of its messages wait, nothing is read of a market that was opened since.
    hook = Webhook.objects.create(owner=bob, name="x", url="https://x.test", secret="s", created_at=clock.now())
    assert archived(old) == []
    WebhookCursor.objects.create(webhook=hook, market=old, version=old.version)
    assert archived(old)[-1].slot == CUT


@pytest.mark.parametrize("why", ["it is off", "its owner's account is closed", "it follows another cluster"])
def test_a_webhook_that_reads_no_events_of_a_market_keeps_none_of_them(old: Market, why: str) -> None:
    bob = User.objects.get(username="bob")
    hook = Webhook.objects.create(owner=bob, name="x", url="https://x.test", secret="s", created_at=clock.now())
    WebhookCursor.objects.create(webhook=hook, market=old, version=20)
    if why == "it is off":
        Webhook.objects.update(is_on=False)
    elif why == "its owner's account is closed":
        User.objects.filter(pk=bob.pk).update(is_active=False)
    else:
        Webhook.objects.update(cluster=make_cluster("hall"))
    assert archived(old)[-1].slot == CUT


def test_what_was_decided_before_the_cut_is_not_decided_again(old: Market) -> None:
    early, late = Bid.objects.get(sequence=7), Bid.objects.filter(state=BidState.RUNNING).latest("sequence")
    record, policy = Record.of(old), make_policy("dps", {"price": "paper"})
    expected = alternatives_of(late, caller=1).by_value, compare(record, policy, since=40).rows
    archived(old, before=2)
    with pytest.raises(Archived, match="What was decided before slot 2 is archived"):
        alternatives_of(Bid.objects.get(pk=early.pk), caller=2)
    with pytest.raises(Archived):
        compare(Record.of(old), policy, since=1)
    assert compare(Record.of(old), policy, since=40).rows == expected[1]
    assert Record.of(old).book_before(Market.objects.get().version).book.running.jobs


def test_old_events_are_archived_in_the_background(old: Market, folder: Path) -> None:
    archive_old_events()
    assert Seal.objects.count() == 0  # nothing is archived unless an operator says so
    out = StringIO()
    call_command("archive", "lab", "--keep-days", "30", stdout=out)
    archive_old_events()
    assert Seal.objects.count() == 0
    Event.objects.filter(kind=EventKind.SLOT, slot__lte=CUT).update(at=clock.now() - timedelta(days=31))
    archive_old_events()
    assert Seal.objects.latest("number").slot == CUT
    call_command("archive", "lab", "--keep-days", "off", stdout=out)
    assert Market.objects.get().keep_days is None
    assert "after 30 days" in out.getvalue()


def test_the_command_archives_and_checks(old: Market, folder: Path) -> None:
    out = StringIO()
    call_command("archive", "lab", "--before", str(CUT), stdout=out)
    call_command("archive", "lab", "--before", str(CUT), stdout=out)
    call_command("archive", "lab", "--check", stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("archive 1: ")
    assert lines[1].startswith("nothing is old enough")
    assert lines[2] == "1 archive replayed, byte for byte the same"
    next(folder.iterdir()).unlink()
    with pytest.raises(CommandError, match="1 thing is not as it was sealed"):
        call_command("archive", "lab", "--check", stdout=out)


def test_a_day_may_be_given(old: Market) -> None:
    call_command("archive", "lab", "--before", "2020-01-01", stdout=StringIO())
    assert Seal.objects.count() == 0
    call_command("archive", "lab", "--before", "2999-01-01", stdout=StringIO())
    assert Seal.objects.count() == 1


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "", "1.5", "9" * 20, "0001-01-01T00:00+14:00"])
def test_nothing_else_may_be_given(old: Market, text: str) -> None:
    with pytest.raises(CommandError, match="expected a slot, a day such as 2026-11-25 or a time"):
        call_command("archive", "lab", f"--before={text}", stdout=StringIO())
