"""FIFO: who runs when."""

from dataclasses import replace

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause
from scheduling.model.decision import Reason
from scheduling.policies.baselines.fifo import Fifo
from tests.scheduling.gpu_cluster import completions, gpu_cluster, job, run, slots_of

LINE = [job("first", 2, 4), job("large", 4, 3, at=1), job("small", 1, 1, at=2)]


def test_jobs_start_in_order_of_arrival_and_the_head_of_the_line_holds_up_the_rest() -> None:
    going = run(Fifo(), LINE, 4)
    assert completions(going) == {"first": 4, "large": 7, "small": 8}
    assert slots_of(going, "small") == [7]
    assert [d.schedule is None for d in going.decisions] == [False, True, True]


def test_without_blocking_a_small_job_passes() -> None:
    assert completions(run(Fifo(blocking=False), LINE, 4)) == {"first": 4, "large": 7, "small": 3}


def test_a_receipt_says_the_place_in_line_and_that_nobody_pays() -> None:
    texts = [d.explanation for d in run(Fifo(), LINE, 4).decisions]
    assert "starts now, in slot 0, and is to be complete at slot 4" in texts[0]
    assert "alone in line" in texts[1]
    assert "number 2 of the 2 jobs in line" in texts[2]
    assert all("Nobody pays" in text for text in texts)


def test_a_heavier_job_does_not_pass() -> None:
    heavy = [*LINE[:2], replace(LINE[2], utility=job("", 1, 1, weight=1e6).utility)]
    assert completions(run(Fifo(), heavy, 4)) == completions(run(Fifo(), LINE, 4))


def test_an_impossible_job_is_rejected_and_holds_nothing_up() -> None:
    going = run(Fifo(), [job("huge", 4, 1), job("endless", 1, 51), job("fine", 1, 50)], 3)
    assert [d.reason for d in going.decisions] == [Reason.IMPOSSIBLE, Reason.IMPOSSIBLE, None]
    assert completions(going) == {"fine": 50}


def test_a_job_starts_when_its_upload_is_over() -> None:
    going = run(Fifo(), [replace(job("a", 1, 2), delay=(3,)), job("b", 1, 1, at=1)], 1)
    assert completions(going) == {"a": 5, "b": 6}


def test_a_job_another_policy_planned_for_later_is_back_in_line_and_one_that_was_promised_stays() -> None:
    book = RunningBook(Ledger(gpu_cluster(2), start=0, slots=20))
    for name, start, bound in (("promised", 3, True), ("planned", 6, False)):
        elsewhere = RunningBook(Ledger(gpu_cluster(2), start=start, slots=9)).view()
        book.apply_decision(job(name, 2, 2), Fifo().decide(job(name, 2, 2), elsewhere), bound=bound)
    book.apply(Fifo().plan(book.view(), Cause.CHANGED))
    assert (book.jobs["planned"].completion, book.jobs["promised"].completion) == (2, 5)
    assert Fifo().decide(job("long", 2, 2), book.view()).schedule is None


def test_a_job_that_has_become_impossible_holds_up_nobody() -> None:
    book = RunningBook(Ledger(gpu_cluster(4), start=0, slots=20))
    for bid in (job("runs", 3, 2), job("huge", 4, 2), job("small", 2, 2)):
        book.apply_decision(bid, Fifo().decide(bid, book.view()), bound=False)
    smaller = RunningBook(Ledger(gpu_cluster(2), start=2, slots=20))
    smaller.jobs = {name: held for name, held in book.jobs.items() if name != "runs"}
    assert [move.job for move in Fifo().plan(smaller.view(), Cause.CHANGED)] == ["small"]
