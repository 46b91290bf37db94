"""A small cluster and a small job, for the examples in docstrings."""

from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Linear

INVENTORY = Inventory(
    resources=("gpu", "cpu"),
    servers=("a", "b"),
    cloud=(False, False),
    capacity=np.array([[2, 0], [0, 2]]),
    workers=(MachineType("worker", (1, 0), Fraction(100)),),
    parameter_servers=(MachineType("ps", (0, 1), Fraction(200)),),
)
"""Server a has room for two workers, and server b has room for two parameter servers."""


def job(value: float = 10.0, *, id: str = "job", arrival: int = 0) -> Bid:
    """Return a bid for a job of four mini-batches, with a value that falls by 1 in every slot.

    A mini-batch takes half a slot on a worker and half a slot of transfer, so one worker needs four slots and two
    workers need two.
    """
    half = Fraction(1, 2)
    return Bid(
        id=id,
        arrival=arrival,
        epochs=2,
        chunks=2,
        minibatches=1,
        worker_time=(half,),
        ps_time=(Fraction(0),),
        transfer_time=(half,),
        delay=(0, 0),
        utility=Linear(value, 1.0),
    )
