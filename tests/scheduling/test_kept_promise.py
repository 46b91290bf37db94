"""A promise is kept by the slot that was promised, counted from the arrival of the job, or not at all."""

from dataclasses import replace

import pytest

from scheduling.book.ledger import Ledger
from scheduling.book.state import Job
from scheduling.model.utility import Constant
from scheduling.policies.dps import Dps
from tests.scheduling.test_dps import INVENTORY, bid, book, held


@pytest.mark.parametrize(("promised", "kept"), [(6, None), (7, 7), (8, 7)])
def test_a_promise_is_kept_by_the_slot_promised_or_not_at_all(promised: int, kept: int | None) -> None:
    ledger = Ledger(INVENTORY, start=2, slots=8)
    for server in (0, 1):  # other jobs hold all workers until slot 5
        ledger.commit(held(start=2, end=5, server=server, count=int(INVENTORY.capacity[server, 0])))
    lost = replace(bid(Constant(1)), arrival=2)
    found = Dps().keep_promise(Job(lost, held=(), completion=promised, bound=True), book(ledger))
    assert (None if found is None else found.completion) == kept


def test_a_job_that_was_promised_nothing_is_given_nothing() -> None:
    assert Dps().keep_promise(Job(bid(Constant(1)), held=(), completion=None), book()) is None
