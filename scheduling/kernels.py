"""All kernels that are compiled."""

from scheduling import elastic, fluid_prices, planner, rigid
from scheduling.offline import duality
from scheduling.preemptive import warming


def warm_up() -> None:
    """Compile, or load from disk, every kernel, so that no request pays for it."""
    rigid.warm_up()
    planner.warm_up()
    elastic.warm_up()
    fluid_prices.warm_up()
    warming.warm_up()
    duality.warm_up()
