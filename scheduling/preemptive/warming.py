"""Compile the kernels of queues before the first request."""

from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Constant
from scheduling.preemptive import placing
from scheduling.preemptive.dispatch import UNLIMITED, dispatch
from scheduling.preemptive.queues import Queues


def warm_up() -> None:
    """Compile every kernel, or load it from disk, with one small run."""
    inventory = Inventory(
        resources=("worker", "ps"),
        servers=("edge",),
        cloud=(False,),
        capacity=np.array([[2, 2]], dtype=np.int64),
        workers=(MachineType("worker", (1, 0), Fraction(1)),),
        parameter_servers=(MachineType("ps", (0, 1), Fraction(1)),),
    )
    queues = Queues(inventory, now=0)
    for name, chunks in (("long", 3), ("short", 2)):
        bid = Bid(
            id=name,
            arrival=0,
            epochs=1,
            chunks=chunks,
            minibatches=1,
            worker_time=(Fraction(1),),
            ps_time=(Fraction(1),),
            transfer_time=(Fraction(1),),
            delay=(0,),
            utility=Constant(1.0),
        )
        sent = dispatch(bid, queues)
        if sent is not None:
            sent.send(bid, queues)
    task = queues.task(bid)
    if task is not None:
        one = np.zeros(1, dtype=np.int64)
        queues.growth(one, one, task, one)
        placing.pack(one, one, 1, one, one, UNLIMITED, one.copy(), np.zeros(1), one.copy())
    queues.congestion(2)
    queues.windows()
    queues.take("long")
    queues.advance(9)
