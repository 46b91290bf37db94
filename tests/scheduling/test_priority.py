"""Jobs by turn: kept in order as they come and go, as sorting all of them again would have it."""

import numpy as np
import pytest

from scheduling.book.state import Job
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.priority import Priority, Ranked, RankedJobs
from tests.scheduling.gpu_cluster import job

BIDS = [job(str(number), 1, 1) for number in range(40)]


def ranked(waiting: Job) -> Ranked | None:
    """Few keys, so that many are equal; every seventh is impossible."""
    number = int(waiting.bid.id)
    if number % 7 == 0:
        return None
    key = (number % 3,)
    return Ranked((key, 0), waiting, Priority(key, Gang(waiting.bid, 0, None, 1)), [number, 1])


@pytest.mark.parametrize("seed", range(5))
def test_a_row_is_as_if_all_were_sorted_again_and_only_newcomers_are_asked_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, row = [Job(bid, held=(), completion=None) for bid in BIDS], RankedJobs()
    for many in (0, 30, 28, 3, 3, 20, 40, 0):
        here = tuple(jobs[number] for number in sorted(rng.choice(40, many, replace=False).tolist()))
        asked: list[Job] = []

        def ask(waiting: Job, asked: list[Job] = asked) -> Ranked | None:
            asked.append(waiting)
            return ranked(waiting)

        before, row = row, row.after(here, ask)
        assert row.jobs == here
        assert [one.job for one in row.ranked] == sorted(
            (one for one in here if ranked(one)), key=lambda one: int(one.bid.id) % 3
        )
        assert all(all(one is not old for old in before.jobs) for one in asked)
        assert row.units_behind == [
            [sum(one.units[r] for one in row.ranked[place:]) for r in range(2)] for place in range(len(row.ranked))
        ]
        assert row.after(here, ask) is row


def test_jobs_that_come_after_all_others_are_the_last_of_equals() -> None:
    jobs, row = [Job(bid, held=(), completion=None) for bid in BIDS], RankedJobs()
    for end in (3, 4, 20, 23, 40):
        row = row.after(tuple(jobs[:end]), ranked)
        numbers = [int(one.job.bid.id) for one in row.ranked]
        assert numbers == sorted((n for n in range(end) if n % 7), key=lambda n: (n % 3, n))
