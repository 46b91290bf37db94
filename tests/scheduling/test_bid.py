"""A job as it is stored."""

import json
from dataclasses import replace
from fractions import Fraction

from scheduling.model.bid import Bid
from scheduling.model.utility import Constant

BID = Bid(
    id="1",
    arrival=0,
    epochs=2,
    chunks=3,
    minibatches=5,
    worker_time=(Fraction(1, 3), Fraction(2)),
    ps_time=(Fraction(1, 7),),
    transfer_time=(Fraction(0), Fraction(5, 11)),
    delay=(0, 4),
    utility=Constant(5.0),
)


def test_jobs_of_the_same_model_share_their_times_when_they_are_read_back() -> None:
    other = replace(BID, id="2", epochs=9)
    read, second = (Bid.from_json(json.loads(json.dumps(bid.to_json()))) for bid in (BID, other))
    assert (read, second) == (BID, other)
    for name in ("worker_time", "ps_time", "transfer_time"):
        assert getattr(read, name) is getattr(second, name)
