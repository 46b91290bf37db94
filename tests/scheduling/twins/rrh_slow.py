"""RRH on one server of GPUs, slot by slot: who is admitted, and when each job is complete."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scheduling.model.bid import Bid


@dataclass
class Slow:
    """Jobs of one worker each, whose `minibatches` are slots."""

    gpus: int
    threshold: float
    risk: float

    def __post_init__(self) -> None:
        self.here: dict[str, Bid] = {}
        self.left: dict[str, int] = {}
        self.running: set[str] = set()
        self.done: dict[str, int] = {}
        self.admitted: list[str] = []

    def run(self, bids: Sequence[Bid]) -> None:
        now = 0
        while now == 0 or self.here or now <= bids[-1].arrival:
            ended = [name for name in self.here if self.left[name] == 0]
            for name in ended:
                del self.here[name]
                self.done[name] = now
            if ended:
                self.choose(now)
            for bid in (bid for bid in bids if bid.arrival == now):
                self.arrive(bid, now)
            for name in self.running & set(self.here):
                self.left[name] -= 1
            now += 1

    def arrive(self, bid: Bid, now: int) -> None:
        before = self.forecast(now)
        self.here[bid.id], self.left[bid.id] = bid, bid.minibatches
        after = self.forecast(now)
        gain = bid.utility.at(after[bid.id] - bid.arrival)
        cost = 0.0
        if sum(wide(one) for one in self.here.values()) > self.gpus:
            late = Fraction(self.left[bid.id] * wide(bid), self.gpus)
            cost = sum(
                value_of(self.here[name], end) - value_of(self.here[name], end + late) for name, end in before.items()
            )
        if gain - cost > self.threshold * bid.utility.value:
            self.admitted.append(bid.id)
            self.choose(now)
        else:
            del self.here[bid.id]

    def order(self, now: int, running: Collection[str] = ()) -> list[str]:
        """Return jobs by reward; running jobs first in case of ties."""

        def reward(name: str) -> float:
            bid, slots = self.here[name], self.left[name]
            gain, later = (bid.utility.at(now + slots + more - bid.arrival) for more in (0, 1))
            return (1 - self.risk) * gain / (slots * wide(bid) / self.gpus) + self.risk * (gain - later)

        return sorted(self.here, key=lambda name: (-reward(name), name not in running))

    def forecast(self, now: int) -> dict[str, int]:
        ends: dict[str, int] = {}
        start = now
        for name in self.order(now):
            while wide(self.here[name]) + sum(wide(self.here[n]) for n, end in ends.items() if end > start) > self.gpus:
                start += 1
            ends[name] = start + self.left[name]
        return ends

    def choose(self, now: int) -> None:
        free, before, self.running = self.gpus, self.running, set()
        for name in self.order(now, before):
            if wide(self.here[name]) <= free:
                self.running.add(name)
                free -= wide(self.here[name])


def wide(bid: Bid) -> int:
    return next(i + 1 for i, step in enumerate(bid.worker_time) if step == 1)


def value_of(bid: Bid, end: Fraction | int) -> float:
    low = int(end)
    part = float(end - low)
    return (1 - part) * bid.utility.at(low - bid.arrival) + part * bid.utility.at(low + (part > 0) - bid.arrival)
