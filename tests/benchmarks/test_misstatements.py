"""The benchmark of other statements than the truth, on small worlds."""

import pytest

from benchmarks import misstatements
from benchmarks.misstatements import decisions, generated, sequences, statements


def test_no_other_value_or_deadline_gains_in_a_single_decision() -> None:
    rows = [line.split(" | ") for line in decisions([generated(3, jobs=8)], "made up") if "|" in line]
    exact = {row[0].removeprefix("| "): row[2] for row in rows[2 : rows.index(rows[0], 1)]}
    assert {exact[kind] for kind in ("value", "deadline")} == {"0.0%"}
    assert {"more work", "fewer workers", "more delay"} < exact.keys()


def test_statements_ask_for_at_least_what_the_job_needs() -> None:
    (bid, *_) = generated(3, jobs=8).bids
    found = statements(bid, 30)
    assert all(one.work > bid.work for one in found["more work"])
    assert all(one.work >= bid.work and one.chunks < bid.chunks for one in found["fewer workers"])
    assert all(min(one.delay) > min(bid.delay) for one in found["more delay"])
    assert {one.work for kind in ("value", "deadline") for one in found[kind]} == {bid.work}


def test_sequences_compare_what_bidders_have_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misstatements, "FACTORS", dict.fromkeys(misstatements.FACTORS, (0.5, 1.0)))
    rows = list(sequences([generated(3, jobs=8)]))
    assert rows[3].startswith("| dps | 1 | 2 | 0% | 0% | +0.0% | 0% |"), "the truth gains nothing"
    assert len(rows) == 2 + 3 * 3
