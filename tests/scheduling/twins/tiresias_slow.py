"""Tiresias on one server of GPUs, slot by slot: at every event the least remaining GPU time first, greedily."""

from collections.abc import Sequence

from scheduling.model.bid import Bid


def tiresias(bids: Sequence[Bid], gpus: int) -> dict[str, int]:
    """Completions of jobs of one worker each, whose `minibatches` are slots."""
    wide = {bid.id: next(i + 1 for i, step in enumerate(bid.worker_time) if step == 1) for bid in bids}
    left = {bid.id: bid.minibatches for bid in bids}
    ran: set[str] = set()
    running: set[str] = set()
    resumed: set[str] = set()
    done: dict[str, int] = {}
    now = 0
    while len(done) < len(bids):
        ended = [name for name in running if left[name] == 0]
        for name in ended:
            running.remove(name)
            done[name] = now
        here = [bid.id for bid in bids if bid.arrival < now and bid.id not in done]
        new = [bid.id for bid in bids if bid.arrival == now]
        for event in [here] if ended else []:
            running = _choose(event, running, left, wide, gpus)
        for name in new:
            here.append(name)
            running = _choose(here, running, left, wide, gpus)
        for name in running:
            # A job that ran, stopped and is back does nothing in its first slot.
            if name in resumed or name not in ran:
                left[name] -= 1
        resumed = set(running)
        ran |= running
        now += 1
    return done


def _choose(names: list[str], running: set[str], left: dict[str, int], wide: dict[str, int], gpus: int) -> set[str]:
    chosen: set[str] = set()
    for name in sorted(names, key=lambda name: (left[name] * wide[name], name not in running)):
        if wide[name] + sum(wide[other] for other in chosen) <= gpus:
            chosen.add(name)
    return chosen
