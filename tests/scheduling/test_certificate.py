import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.best_response.dual_bound import rigid_terms
from scheduling.model.utility import Constant, Linear
from scheduling.policies.dps import Dps
from tests.draws import rounds
from tests.scheduling.test_dps import INVENTORY, bid
from tests.scheduling.twins.dual_bound import dual_bound
from tests.scheduling.worlds import SLOTS, Run, world


def test_a_standalone_value_is_the_value_of_the_earliest_completion() -> None:
    free = rigid_terms(INVENTORY, np.zeros((8, 2, 2)), start=0)
    assert free.term(bid(Linear(12, 2))) == 8
    assert free.term(bid(Linear(12, 2)), end=1) == 0


def test_a_bound_is_the_sum_of_its_terms() -> None:
    prices = np.full((8, 2, 2), 0.5)
    bids = [bid(Constant(10)), bid(Constant(1))]
    terms = rigid_terms(INVENTORY, prices, start=0)
    # Two workers and a PS for two slots cost 3, one worker and a PS for four slots 4; the second bid cannot pay.
    assert [terms.term(one) for one in bids] == pytest.approx([7, 0])
    assert dual_bound(bids, INVENTORY, prices=prices, terms=terms) == pytest.approx(7 + 8 * 9 * 0.5)


@settings(max_examples=rounds(20))
@given(seed=st.integers(0, 2**32 - 1), level=st.floats(0, 20))
def test_no_run_earns_more_than_any_bound(seed: int, level: float) -> None:
    drawn = world(seed, bids=12)
    going = Run(drawn.ledger(), Dps(refit_every=2), [])
    decisions = [going.decide(b) for b in drawn.bids]
    welfare = sum(decision.value for decision in decisions)
    assert sum(d.standalone_value for d in decisions) >= welfare * (1 - 1e-9)
    random = np.random.default_rng(seed).uniform(0, level, (SLOTS, *drawn.inventory.capacity.shape))
    for prices in (going.policy.prices(going.book()), random):
        terms = going.policy.at_prices(drawn.inventory, prices, start=0)
        assert terms is not None
        assert dual_bound(drawn.bids, drawn.inventory, prices=prices, terms=terms) >= welfare * (1 - 1e-9)
        # One index for all bids answers as a fresh one does.
        alone = [rigid_terms(drawn.inventory, prices, start=0).term(b) for b in drawn.bids]
        assert [terms.term(b) for b in drawn.bids] == alone
