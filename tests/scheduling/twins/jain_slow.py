"""The greedy of Jain et al. on one server of GPUs, with a count of GPUs in use in every slot."""

from collections.abc import Sequence
from fractions import Fraction

from scheduling.model.bid import Bid
from tests.scheduling.gpu_cluster import NEVER

Placed = dict[str, tuple[int, int, int]]


def jain(bids: Sequence[Bid], gpus: int, windows: Sequence[tuple[int, int]]) -> Placed:
    """First slot, completion and number of workers of the jobs of `gpu_cluster.job` that are placed."""
    wide = {bid.id: next(i + 1 for i, step in enumerate(bid.worker_time) if step != NEVER) for bid in bids}
    order = sorted(bids, key=lambda bid: -Fraction(bid.utility.value) / (bid.minibatches * wide[bid.id]))
    used = [0] * max(end for _, end in windows)
    placed: Placed = {}
    for first, end in windows:
        for bid in order:
            if bid.id not in placed:
                found = _latest(bid, wide[bid.id], used, gpus, first, end)
                if found is not None:
                    placed[bid.id] = found
                    for slot in range(found[0], found[1]):
                        used[slot] += found[2] * wide[bid.id]
    return placed


def _latest(bid: Bid, wide: int, used: list[int], gpus: int, first: int, end: int) -> tuple[int, int, int] | None:
    workers = min(bid.chunks, gpus // wide)
    while workers:
        slots = -(-bid.minibatches // workers)
        for start in reversed(range(max(first, bid.arrival + bid.delay[0]), end - slots + 1)):
            if all(used[slot] + workers * wide <= gpus for slot in range(start, start + slots)):
                return start, start + slots, workers
        workers //= 2
    return None
