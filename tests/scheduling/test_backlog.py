"""Room that may be sold ahead: what jobs' utilities and the ledger say."""

import pytest

from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Job
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.utility import Constant, Inverse, Linear, Sigmoid, Step, Utility
from scheduling.policies.dps import Dps
from scheduling.pricing.backlog import LATEST, sellable_share
from tests.scheduling.test_dps import INVENTORY, bid
from tests.scheduling.test_fluid_prices import book

SLOTS = 80
HALF = Linear(c=95.0, b=0.5)
"""Worth 90 an eighth of a horizon after arrival, and 55 a horizon after."""


def market(*utilities: Utility, held: tuple[Placement, ...] = ()) -> Book:
    ledger = Ledger(INVENTORY, start=0, slots=SLOTS)
    ledger.commit(Schedule(start=0, completion=SLOTS, placements=held))
    jobs = tuple(Job(bid(one), (), completion=9) for one in utilities)
    return Book(0, ledger, history=book([]).history, decided=len(jobs), jobs=jobs)


@pytest.mark.parametrize(
    ("utility", "room"),
    [
        (Constant(7.0), 1.5),
        (HALF, 0.875),  # 1.5 x 55 / 90 = 0.917, in eighths
        (Sigmoid(100.0, 0.02, 0.0), 0.5),
        (Step(5.0, SLOTS), 1.5),
        (Step(5.0, SLOTS - 1), 0.0),
        (Step(5.0, 9), 0.0),  # too soon for either
        (Inverse(a=1.0, work=1.0, T=80.0), 0.0),
    ],
)
def test_the_less_a_job_loses_by_waiting_the_more_may_be_sold_ahead(utility: Utility, room: float) -> None:
    assert sellable_share(market(utility)) == room


def test_it_does_not_depend_on_the_unit_of_money() -> None:
    assert sellable_share(market(HALF.scaled(1e-6))) == sellable_share(market(HALF.scaled(1e6)))


def test_the_median_of_the_last_jobs_counts() -> None:
    rush = Step(5.0, 9)
    assert sellable_share(market(rush, HALF, Constant(7.0))) == 0.875
    assert sellable_share(market(*[rush] * LATEST, *[HALF] * LATEST)) == 0.875


def test_what_is_sold_is_taken_off() -> None:
    # All of one role's machines for 30 of 80 slots: three eighths, of whichever role it is.
    for role, r in ((Role.WORKER, 0), (Role.PS, 1)):
        held = tuple(
            Placement(0, 30, role, server, 0, int(units))
            for server, units in enumerate(INVENTORY.capacity[:, r])
            if units
        )
        assert sellable_share(market(HALF, held=held)) == 0.5
        assert sellable_share(market(Step(5.0, 9), held=held)) == -0.375


def test_nothing_is_known_while_no_job_is_in_the_book() -> None:
    assert sellable_share(market()) == 0.0


def test_patient_jobs_in_the_book_lower_the_fluid_price_and_hasty_ones_do_not() -> None:
    policy = Dps(price="fluid", refit_every=1)
    past = book([[1.0 + i % 7, 50.0] for i in range(64)], slots=[100 - i // 8 for i in range(64)][::-1], now=100)
    price = {
        name: float(policy.prices(Book(**{**vars(past), "jobs": market(utility).jobs})).max())
        for name, utility in (("patient", Constant(7.0)), ("hasty", Step(5.0, 1)))
    }
    assert price["patient"] < price["hasty"] == float(policy.prices(past).max())
