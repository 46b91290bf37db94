"""Microsoft's Philly: a day, a week, one tenant over three months, and odd rows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from benchmarks.philly_rows import DAY, HEADING, WEEK, Job, Slice, Tenant, draw_jobs, text_of
from tests.data.make.traces.sample import Line, Sample, odd, rng_of

IMITATES = "Microsoft Philly, CSV slice (timestamp, duration, num_gpus, gpu_time, cluster)"
SET_BACK = datetime.fromisoformat("2017-11-05 02:00:00")
"""Clocks showed the hour before this one twice."""
TENANT = Slice(
    datetime.fromisoformat("2017-09-21"),
    days=90,
    jobs=240,
    longest_s=4_600_000,
    tenants=(Tenant("vc0006", 1.0, 33_000, 243_000, {1: 40, 2: 7, 4: 18, 8: 28, 16: 6, 32: 1}),),
)


def samples() -> Iterator[Sample]:
    """Each file."""
    day = draw_jobs(replace(DAY, jobs=320), rng_of(101))
    yield _sample("day.csv", day, "a day of 320 jobs, nearly all on one GPU, most of them in two bursts")
    week = draw_jobs(replace(WEEK, jobs=640), rng_of(102))
    yield _sample("week.csv", week, "a week of 640 jobs of nine tenants, some of which run for longer than the week")
    largest = Job(TENANT.begin + timedelta(days=40, seconds=7), 604_800, 128, "vc0006")
    shortest = Job(TENANT.begin + timedelta(days=41, seconds=7), 1, 1, "vc0006")
    longest = Job(TENANT.begin + timedelta(days=2, seconds=7), TENANT.longest_s, 8, "vc0006")
    twice = [
        Job(SET_BACK - timedelta(minutes=m), 3600 * g, g, "vc0006") for m, g in ((12, 1), (3, 8), (55, 4), (41, 2))
    ]
    jobs = sorted([*draw_jobs(TENANT, rng_of(103)), largest, shortest, longest], key=lambda job: job.submitted)
    at = next(i for i, job in enumerate(jobs) if job.submitted >= SET_BACK)
    about = (
        "one tenant, 90 days: most jobs on several GPUs, one on 128; run times from 1 s to 53 days; clocks are set back"
        " between two rows, so that times are not in order"
    )
    yield _sample("tenant.csv", [*jobs[:at], *twice, *jobs[at:]], about)
    yield _odd()
    yield _marked(day[:40])


def _sample(name: str, jobs: Sequence[Job], about: str) -> Sample:
    return Sample(f"philly/{name}", IMITATES, about, "philly", text_of(jobs).encode(), len(jobs), (), _facts(jobs))


def _facts(jobs: Sequence[Job]) -> dict[str, object]:
    gpus, first = Counter(job.gpus for job in jobs), min(job.submitted for job in jobs)
    return {
        "gpu_seconds": sum(job.gpus * job.duration_s for job in jobs),
        "jobs_of_gpus": {str(count): gpus[count] for count in sorted(gpus)},
        "jobs_of_tenants": dict(sorted(Counter(job.tenant for job in jobs).items())),
        "first_line": 2 + next(i for i, job in enumerate(jobs) if job.submitted == first),
        "last_submitted_s": int((max(job.submitted for job in jobs) - first).total_seconds()),
        "longest_s": max(job.duration_s for job in jobs),
    }


def _odd() -> Sample:
    return odd(
        "philly/odd.csv",
        IMITATES,
        "philly",
        heading=HEADING,
        lines=[
            Line("2017-10-12 08:00:00,600.0,1,600.0,vc0001", "", "an ordinary row"),
            Line("2017-10-12 08:00:00,600.0,1,600.0,vc0001", "", "the same row again, which is another job"),
            Line("2017-10-12 08:00:01,0.0,1,0.0,vc0001", "duration", "a job that was killed before it ran"),
            Line("2017-10-12 08:00:02,,1,,vc0001", "duration", "a job that has not ended"),
            Line("2017-10-12 08:00:03,-3600.0,1,-3600.0,vc0001", "duration", "an end before the begin"),
            Line("2017-10-12 08:00:04,60.0,0,0.0,vc0002", "num_gpus", "a job on processors only"),
            Line("2017-10-12 08:00:05,60.0,,60.0,vc0002", "num_gpus", "no number of GPUs"),
            Line("2017-10-12 08:00:06,60.0,2.0,120.0,vc0002", "", "GPUs as a decimal number"),
            Line("2017-10-12 08:00:07,60.0,2.5,150.0,vc0002", "num_gpus", "two GPUs and a half"),
            Line("None,60.0,1,60.0,vc0002", "timestamp", "a job without a time of submission"),
            Line("2017-10-12T08:00:09,60.0,1,60.0,vc0002", "", "a time with a T"),
            Line("2017-10-12 08:00:10+00:00,60.0,1,60.0,vc0002", "timestamp", "a time with a zone"),
            Line("2017-10-12 07:00:00,60.0,1,60.0,vc0003", "", "the earliest job, in the middle of the file"),
            Line("2017-10-12 08:00:12,60.0,1,60.0", "line", "a cell too few"),
            Line("2017-10-12 08:00:13,60.0,1,60.0,vc0003,x", "line", "a cell too many"),
            Line("", "line", "an empty line"),
            Line('2017-10-12 08:00:15,60.0,1,60.0,"a, b"', "", "a tenant whose name has a comma"),
            Line('2017-10-12 08:00:16,60.0,1,60.0,"vc0003', "line", "a quotation mark that does not close"),
            Line("2017-10-12 08:00:17,60.0,1,60.0,", "", "a job of no tenant"),
            Line("2017-10-12 08:00:18,1e3,4,4000.0,vc0003", "", "a run time with an exponent"),
            Line(HEADING, "timestamp", "the heading again"),
            Line("9017-10-12 08:00:20,60.0,1,60.0,vc0003", "timestamp", "a time seven thousand years later"),
            Line("2017-10-12 08:00:21,60.0,4,1.0,vc0003", "", "a GPU time that is not the product"),
            Line("2017-10-12 08:00:22,60.0,20000,60.0,vc0003", "num_gpus", "more GPUs than a job may have"),
        ],
        gpu_seconds=600 + 600 + 120 + 60 + 60 + 60 + 60 + 4000 + 240,
        first_line=14,
        last_submitted_s=3621,
    )


def _marked(jobs: Sequence[Job]) -> Sample:
    """As a spreadsheet of Windows saves it, with a row that is no UTF-8."""
    text = text_of(jobs).replace("\n", "\r\n").encode()
    bad = b"2017-10-13 00:00:00,60.0,1,60.0,caf\xe9\r\n"
    about = (
        "the first 40 jobs of the day with a byte order mark and CRLF at the ends of lines, and a last line in Latin-1"
    )
    wrong = ((len(jobs) + 2, "line"),)
    return Sample(
        "philly/marked.csv", IMITATES, about, "philly", b"\xef\xbb\xbf" + text + bad, len(jobs), wrong, _facts(jobs)
    )
