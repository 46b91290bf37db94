"""Groups of kernels: each group is compiled when a market, a study or a bound first needs it.

Several processes can compile the parts of a group at the same time; loading a compiled group takes less than a second.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduling.batch import planner
from scheduling.best_response.divided import terms as divided
from scheduling.best_response.elastic import kernel as elastic
from scheduling.best_response.rigid import kernel as rigid
from scheduling.competition import kernel as competition
from scheduling.policies.base import Policy
from scheduling.policies.competition import Competition
from scheduling.policies.completions import Completions
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.policies.preemptive import Preemptive
from scheduling.policies.weighted_completion import WeightedCompletion
from scheduling.preemptive import warming as queues
from scheduling.pricing import fluid as fluid_prices
from scheduling.split_learning import warming as split_learning


@dataclass(frozen=True)
class Group:
    """Kernels that are needed together."""

    name: str
    warm_up: Callable[[], None]
    """Compiles all kernels of the group, or loads them from disk."""
    halves: tuple[tuple[str, Callable[[], None]], ...] = ()
    """Parts that can be compiled at the same time, each with its name; empty: the group is one part."""

    @property
    def parts(self) -> Mapping[str, Callable[[], None]]:
        """Functions that compile the parts of the group, by name."""
        return {f"{self.name}.{half}": compile_half for half, compile_half in self.halves} or {self.name: self.warm_up}


RIGID: Final = Group("rigid", rigid.warm_up, (("search", rigid.compile_search), ("tables", rigid.compile_tables)))
ELASTIC: Final = Group("elastic", elastic.warm_up)
PLANNER: Final = Group("planner", planner.warm_up)
QUEUES: Final = Group("queues", queues.warm_up)
FLUID: Final = Group("fluid", fluid_prices.warm_up)
COMPETITION: Final = Group("competition", competition.warm_up)
BOUNDS: Final = Group("bounds", divided.warm_up)
SPLIT_LEARNING: Final = Group("split-learning", split_learning.warm_up)
GROUPS: Final = {
    group.name: group for group in (RIGID, ELASTIC, PLANNER, COMPETITION, QUEUES, FLUID, BOUNDS, SPLIT_LEARNING)
}


_warm: set[Group] = set()


def needed_by(policy: Policy) -> tuple[Group, ...]:
    """Return the groups of kernels that a policy calls.

    Examples
    --------
    >>> from scheduling.registry import make_policy
    >>> [group.name for group in needed_by(make_policy("dps", {"price": "fluid"}))]
    ['rigid', 'fluid']
    >>> needed_by(make_policy("fifo", {}))
    ()
    """
    match policy:
        case Dps(price=price):
            return (RIGID, FLUID) if price == "fluid" else (RIGID,)
        case Oasis(price=price):
            return (ELASTIC, FLUID) if price == "fluid" else (ELASTIC,)
        case Competition():
            return (PLANNER, COMPETITION, BOUNDS)
        case Completions():
            return (PLANNER, BOUNDS)
        case WeightedCompletion(lambda_=base):
            return (PLANNER, RIGID) if base > 1 else (PLANNER,)
        case Preemptive():
            return (QUEUES,)
    return ()


def parts_of(groups: Iterable[Group]) -> dict[str, Callable[[], None]]:
    """Return the functions that compile the parts of these groups, in order."""
    return {name: compile_part for group in groups for name, compile_part in group.parts.items()}


def compile_part(name: str) -> None:
    """Compile a part, or load it from disk; raises KeyError if no part has this name."""
    parts_of(GROUPS.values())[name]()


def warm_up(*groups: Group) -> None:
    """Compile these groups, or load them from disk, so that no decision has to wait for it."""
    for group in groups:
        if group not in _warm:
            group.warm_up()
            _warm.add(group)


def warm_up_all() -> None:
    """Compile or load all groups but that of split learning, which plans load themselves."""
    warm_up(*(group for group in GROUPS.values() if group is not SPLIT_LEARNING))


def is_warm(group: Group) -> bool:
    """Return whether `warm_up` has loaded the group in this process."""
    return group in _warm
