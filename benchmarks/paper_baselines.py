"""Effects of details in which our baselines differ from the papers'. `python -m benchmarks.paper_baselines`.

- DPS compares with a DRF that gives a job min(D, running maximum of D) workers for life, in order of arrival. Ours
  re-scales jobs at every event.
- OASiS places the workers and PSs of FIFO, DRF and RRH on servers in turn (round-robin), and so does its figure here.
  Our policies pack them, with all PSs of a job on one server.
- The preemptive paper takes arrivals from a trace with two peaks. Ours arrive evenly.

The settings are those of `manage.py reproduce` at the small scale: Figure 8 of DPS, 3 of OASiS, 7 of preemptive. Each
number is the mean over seeds with half the width of its 95 % interval.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from benchmarks.arguments import count
from scheduling.kernels import warm_up_all
from scheduling.model.bid import Bid
from scheduling.policies.base import Policy
from scheduling.policies.baselines.dorm import Dorm
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.rrh import Rrh
from scheduling.policies.baselines.whole_gangs import whole_gang
from studies.experiments.intervals import half_width
from studies.papers import dps_cases, preemptive_comparison
from studies.papers.dps_cases import Case
from studies.papers.round_robin import DrfInTurn, FifoInTurn, RrhInTurn
from studies.papers.runs import by_end, run
from studies.workloads.generated import dps, oasis, preemptive
from studies.workloads.generated.system import Workload

DPS_CASE = Case(dps.Setting(servers=8, slots=40, jobs=24, types=2, chunks=(8, 30)), servers=4, jobs=24, cloud=5)
DPS_JOBS = (8, 16, 24)
OASIS_SETTING = oasis.Setting(servers=20, slots=30)
OASIS_JOBS = (6, 12, 18)
PREEMPTIVE_SETTING = preemptive.Setting(jobs=8, servers=10, span=30, types=(2, 2))
PREEMPTIVE_JOBS = (4, 8, 12)
PEAKS, WIDTH = (0.3, 0.7), 0.07
"""Places of the two peaks and their standard deviation, as shares of the time of arrivals."""


def running_maximum_drf(bids: Sequence[Bid], *, blocking: bool) -> Policy:
    """The DRF of the DPS paper (Section 6.1) for these jobs: in order of arrival, with a share for life.

    The paper does not say whether a job that does not fit holds up all behind it (`blocking`).
    """
    most = running_maximum(bids)

    class RunningMaximum(Fifo):
        def gang(self, bid: Bid, floor: PassState) -> Gang | None:
            gang = whole_gang(bid, floor)
            return None if gang is None else replace(gang, count=min(gang.count, most[bid.id]))

    return RunningMaximum(blocking=blocking)


def running_maximum(bids: Sequence[Bid]) -> dict[str, int]:
    """The largest D before each job, in order of arrival; the first job's is its own.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from benchmarks.paper_baselines import running_maximum
    >>> from scheduling.model.example import job
    >>> list(running_maximum([replace(job(), id=str(d), chunks=d) for d in (4, 2, 9, 7)]).values())
    [4, 4, 4, 9]
    """
    before = [bids[0].chunks, *accumulate((bid.chunks for bid in bids[:-1]), max)]
    return {bid.id: most for bid, most in zip(bids, before, strict=True)}


def with_peaks(work: Workload, rng: np.random.Generator, *, span: int) -> Workload:
    """The same jobs with arrivals around two peaks."""
    around = rng.normal(rng.choice(PEAKS, len(work.bids)), WIDTH) * span
    arrivals = np.sort(np.clip(around, 0, span - 1).astype(np.int64)).tolist()
    bids = (replace(bid, arrival=arrival) for bid, arrival in zip(work.bids, arrivals, strict=True))
    return Workload(work.inventory, tuple(bids))


def running_maximum_table(seeds: range) -> Iterator[str]:
    """Welfare of DPS over that of each other, with DRF as it is here and to the letter."""
    yield "DPS, Figure 8: welfare of DPS and FIFO, of DRF as ours, and of DRF with a running maximum for life"
    for jobs in DPS_JOBS:
        rows = [_dps_row(replace(DPS_CASE, jobs=jobs), seed) for seed in seeds]
        yield f"  {jobs:>3} jobs: {_line(rows)}"


def _dps_row(case: Case, seed: int) -> dict[str, float]:
    _, work = dps_cases.drawn(case, seed)
    row = {name: dps_cases.ran(name, case, seed).welfare for name in ("DPS", "FIFO", "DRF")}
    for name, blocking in (("DRF to the letter", True), ("the same, passing over what does not fit", False)):
        letter = running_maximum_drf(work.bids, blocking=blocking)
        slots = case.whole.slots
        row[name] = run(letter, work.bids, work.inventory, slots=slots, until=slots).welfare
    return row


def round_robin_table(seeds: range) -> Iterator[str]:
    """Utility of OASiS's baselines, packed and in turn."""
    yield "OASiS, Figure 3: utility of the baselines, packed as ours and placed in turn"
    for jobs in OASIS_JOBS:
        rows = [_oasis_row(replace(OASIS_SETTING, jobs=jobs), seed) for seed in seeds]
        yield f"  {jobs:>3} jobs: {_line(rows)}"


def _oasis_row(setting: oasis.Setting, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    oasis.draw(setting, rng)  # the jobs of an earlier time, of which the figure has OASiS's bounds
    work = oasis.draw(setting, rng)
    bids = by_end(work.bids, setting.slots)
    policies: dict[str, Policy] = {
        "FIFO": Fifo(),
        "FIFO in turn": FifoInTurn(),
        "DRF": Drf(),
        "DRF in turn": DrfInTurn(),
        "RRH": Rrh(),
        "RRH in turn": RrhInTurn(),
        "Dorm": Dorm(),
    }
    return {
        name: run(policy, bids, work.inventory, slots=setting.slots, until=setting.slots).welfare
        for name, policy in policies.items()
    }


def peaks_table(seeds: range) -> Iterator[str]:
    """Mean times over SRTF's, with even arrivals and with two peaks."""
    yield "Preemptive, Figure 7: mean time of jobs over SRTF's, with even arrivals and with two peaks"
    for jobs in PREEMPTIVE_JOBS:
        setting = replace(PREEMPTIVE_SETTING, jobs=jobs)
        for peaks in (False, True):
            rows = [_preemptive_row(setting, seed, peaks=peaks) for seed in seeds]
            yield f"  {jobs:>3} jobs, {'two peaks' if peaks else 'even'}: {_line(rows)}"


def _preemptive_row(setting: preemptive.Setting, seed: int, *, peaks: bool) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    work = preemptive.draw(setting, rng)
    if peaks:
        work = with_peaks(work, rng, span=setting.span)
    names = {"A_online": "paper", "A_online-E": "edge", "Tiresias-L": "tiresias-l", "BatchSche": "batches"}
    srtf = preemptive_comparison.SCHEDULERS["srtf"](work).mean_time(work)
    return {label: preemptive_comparison.SCHEDULERS[name](work).mean_time(work) / srtf for label, name in names.items()}


def _line(rows: Sequence[Mapping[str, float]]) -> str:
    samples = np.array([list(row.values()) for row in rows]).T
    half = half_width(samples)
    widths = [0.0] * len(samples) if half is None else half.tolist()
    cells = zip(rows[0], samples.mean(axis=1).tolist(), widths, strict=True)
    return ", ".join(f"{name} {mean:,.4g} +- {width:.3g}" for name, mean, width in cells)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper_baselines", description=__doc__)
    parser.add_argument("--seeds", type=count, default=10, help="workloads drawn for each point")
    seeds = range(1, 1 + parser.parse_args().seeds)
    warm_up_all()
    for table in (running_maximum_table(seeds), round_robin_table(seeds), peaks_table(seeds)):
        for line in table:
            print(line, flush=True)


if __name__ == "__main__":
    main()
