"""Texts that are stored compressed."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any
from unittest.mock import patch

import pytest
from django.core.exceptions import FieldError
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from hypothesis import given
from hypothesis import strategies as st

from auctions.engine import decision_queue, intake
from auctions.models import Bid, DecisionRecord
from cluster.database import compact
from cluster.database.compact import CURRENT, DICTIONARIES, KEY_BYTES, SAMPLED, Sample, packed, unpacked
from cluster.models import TextSample
from tests.auctions.worlds import make_market, make_user, submit

DIGESTS = {
    1: "df788beacfecabae730f3e2b782ed7cc8cb803fcb3d678172efd3a10a938e0da",
    2: "b163d60147cad51a9841575cd058acde30a8f65686a2783edfa87048382ca4d5",
}
"""SHA-256 of each dictionary."""


@pytest.mark.parametrize("number", DICTIONARIES)
def test_a_dictionary_never_changes(number: int) -> None:
    assert hashlib.sha256(DICTIONARIES[number]).hexdigest() == DIGESTS[number]
    assert max(DIGESTS) == CURRENT


@given(st.text())
def test_every_text_is_read_as_it_was_written(text: str) -> None:
    assert unpacked(packed(text)) == text


@given(st.text(min_size=1), st.data())
def test_a_text_that_is_cut_off_is_an_error(text: str, data: Any) -> None:
    stored = packed(text)
    with pytest.raises(ValueError, match=r"damaged|expected a compressed text"):
        unpacked(stored[: data.draw(st.integers(0, len(stored) - 1))])


def test_a_text_of_an_unknown_dictionary_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected a compressed text"):
        unpacked(bytes((255,)) + packed("a")[1:])


@given(st.text(), st.text())
def test_a_text_is_read_with_the_sample_that_it_was_written_with(text: str, sample: str) -> None:
    with known(Sample(sample)):
        assert unpacked(packed(text, Sample(sample))) == text


@given(st.text(min_size=1), st.data())
def test_a_text_with_a_sample_that_is_cut_off_is_an_error(text: str, data: Any) -> None:
    stored = packed(text, Sample("a"))
    with known(Sample("a")), pytest.raises(ValueError, match=r"damaged|expected a compressed text"):
        unpacked(stored[: data.draw(st.integers(0, len(stored) - 1))])


@pytest.mark.django_db
def test_a_text_whose_sample_is_not_stored_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no sample"):
        unpacked(packed("a", Sample("a sample that nobody has stored")))


@contextmanager
def known(sample: Sample) -> Iterator[None]:
    """Let this process know one sample and no other, without a database."""
    with patch.object(compact, "_text_of_sample", {sample.key: sample.text}.__getitem__):
        yield


@pytest.fixture
def record(db: None) -> DecisionRecord:
    market = make_market()
    submit(market, make_user("alice"))
    decision_queue.process_pending(market.pk)
    return DecisionRecord.objects.select_related("bid").get()


def stored_bytes(column: str, model: type[Bid] | type[DecisionRecord]) -> bytes:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM {model._meta.db_table}")
        return bytes(cursor.fetchone()[0])


def test_a_receipt_takes_less_than_half_of_its_length(record: DecisionRecord) -> None:
    assert unpacked(stored_bytes("receipt", DecisionRecord)) == record.receipt
    assert len(stored_bytes("receipt", DecisionRecord)) < len(record.receipt) / 2
    assert len(stored_bytes("core_bid", Bid)) < len(json.dumps(record.bid.core_bid)) / 2


def test_bids_on_one_model_share_a_sample_and_take_little(db: None) -> None:
    market = make_market()
    first, second, other = (submit(market, make_user(f"user-{i}"), **more) for i, more in enumerate(({}, {}, OWN)))
    stored = [stored_documents(bid) for bid in (first, second, other)]
    assert [{text[0] for text in texts} for texts in stored] == [{SAMPLED}, {SAMPLED}, {SAMPLED}]
    assert len({text[1 : 1 + KEY_BYTES] for texts in stored for text in texts}) == 1 == TextSample.objects.count()
    assert sum(map(len, stored[1])) < 0.6 * sum(len(packed(text)) for text in map(unpacked, stored[1]))
    for bid in (first, second, other):
        again = Bid.objects.get(pk=bid.pk)
        assert (again.core_bid, again.resolved_request) == (bid.core_bid, bid.resolved_request)


def test_a_bid_that_states_its_own_times_needs_no_sample(db: None) -> None:
    market = make_market()
    bid = submit(market, make_user("alice"), **OWN)
    assert {text[0] for text in stored_documents(bid)} == {CURRENT}
    assert not TextSample.objects.exists()


def test_another_process_reads_a_text_with_a_sample(db: None) -> None:
    bid = submit(make_market(), make_user("alice"))
    compact._text_of_sample.cache_clear()
    assert Bid.objects.get().core_bid == bid.core_bid


def test_a_sample_with_the_key_of_another_one_is_not_used(db: None) -> None:
    market = make_market()
    submit(market, make_user("alice"))
    TextSample.objects.update(text="another text")
    intake._terms.clear()
    bid = submit(market, make_user("bob"))
    assert {text[0] for text in stored_documents(bid)} == {CURRENT}


OWN = {"chunks": 3}
"""What a bid states beside its model."""


def stored_documents(bid: Bid) -> list[bytes]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT core_bid, resolved_request FROM auctions_bid WHERE id = %s", [bid.pk])
        return [bytes(text) for text in cursor.fetchone()]


def test_a_compressed_text_cannot_be_looked_up(record: DecisionRecord) -> None:
    for query in ({"receipt": record.receipt}, {"receipt__contains": "admitted"}, {"bid__core_bid__arrival": 0}):
        with pytest.raises(FieldError):
            DecisionRecord.objects.filter(**query).exists()
    assert DecisionRecord.objects.filter(receipt__isnull=False).exists()


def test_other_values_are_refused(record: DecisionRecord) -> None:
    record.receipt = {}
    with pytest.raises(TypeError, match="receipt: expected a string"):
        record.save()
    record.bid.core_bid = {"value": float("nan")}
    with pytest.raises(ValueError, match="Out of range"):
        record.bid.save()


def test_a_dump_holds_the_texts_and_is_loaded_again(record: DecisionRecord, tmp_path: Any) -> None:
    made = StringIO()
    call_command("dumpdata", "auctions.bid", "auctions.decisionrecord", stdout=made)
    fields = {row["model"]: row["fields"] for row in json.loads(made.getvalue())}
    assert fields["auctions.decisionrecord"]["receipt"] == record.receipt
    assert fields["auctions.bid"]["core_bid"] == record.bid.core_bid
    (tmp_path / "dump.json").write_text(made.getvalue(), "utf-8")
    DecisionRecord.objects.update(receipt="lost")
    Bid.objects.update(core_bid={})
    call_command("loaddata", str(tmp_path / "dump.json"), verbosity=0)
    again = DecisionRecord.objects.select_related("bid").get()
    assert (again.receipt, again.bid.core_bid) == (record.receipt, record.bid.core_bid)


@pytest.fixture
def decided(transactional_db: None) -> list[Any]:
    """Texts of bids of a market, one of which names a program."""
    market = make_market()
    for number in range(3):
        submit(market, make_user(f"user-{number}"))
    decision_queue.process_pending(market.pk)
    bid = Bid.objects.earliest("sequence")
    named = {"name": "train"}
    Bid.objects.filter(pk=bid.pk).update(body=bid.body | {"program": named}, program=named)
    return texts()


def migrate_step_by_step(app: str, name: str) -> None:
    """Go to a migration that one of several replaces for new databases."""
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    executor.migrate([(app, name)])


def schema() -> dict[str, list[str]]:
    """Columns, constraints and indexes of each table of markets, in no order."""
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table.startswith("auctions_"):
                constraints = connection.introspection.get_constraints(cursor, table)
                # SQLite has numbers in place of the names of some.
                named = [
                    ("" if name.startswith(("fk_", "__")) else name, sorted(one.items(), key=str))
                    for name, one in constraints.items()
                ]
                columns = connection.introspection.get_table_description(cursor, table)
                found[table] = sorted(map(str, [*columns, *named]))
    return found


def test_migrations_of_stored_texts_can_be_taken_back_and_applied_again(decided: list[Any]) -> None:
    """One way back and forth, since each of its migrations takes seconds.

    The tables of tests are those of a new database; they are the same after the migrations of an older one.
    """
    new = schema()
    assert {text[0] for bid in Bid.objects.all() for text in stored_documents(bid)} == {SAMPLED}
    try:
        migrate_step_by_step("cluster", "0001_initial")
        kinds = {text[0] for bid in Bid.objects.only("pk") for text in stored_documents(bid)}
        assert kinds == {CURRENT}, "texts are stored without samples again"

        migrate_step_by_step("auctions", "0004_bid_team")
        receipts = rows_of("SELECT receipt FROM auctions_decisionrecord ORDER BY bid_id")
        assert [receipt for (receipt,) in receipts] == [row[-1] for row in decided], "receipts are plain again"
        bodies = rows_of("SELECT body FROM auctions_bid ORDER BY sequence")
        assert [json.loads(body) for (body,) in bodies] == [row[0] for row in decided], "bodies are plain again"

        migrate_step_by_step("auctions", "0015_copied_bodies")
        copied = rows_of("SELECT body_packed, program FROM auctions_bid ORDER BY sequence")
        assert [json.loads(unpacked(bytes(body))) for body, _ in copied] == [row[0] for row in decided]
        assert [program and json.loads(program) for _, program in copied] == [row[1] for row in decided]
        with connection.cursor() as cursor:  # two bids are stored after the copy, one of which names a program
            cursor.execute("UPDATE auctions_bid SET body_packed = NULL, program = NULL WHERE sequence <= 2")
    finally:
        call_command("migrate", verbosity=0)
    assert texts() == decided, "all is compressed when the column changes"
    assert schema() == new


def rows_of(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def texts() -> list[Any]:
    columns = ("body", "program", "resolved_request", "core_bid", "decision__receipt")
    return list(Bid.objects.order_by("sequence").values_list(*columns))
