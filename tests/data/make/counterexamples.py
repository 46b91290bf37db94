"""One instance for each way in which the printed algorithms of DPS and OASiS fail. Each answer is worked out by hand.

The twins that try everything have to find the same, or the file is not written.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.data.make import dps, oasis
from tests.data.make.dps import constant, server, step
from tests.data.make.text import document_text
from tests.scheduling.twins.documents import dps as dps_twin
from tests.scheduling.twins.documents import oasis as oasis_twin
from tests.scheduling.twins.documents.dps_paper import printed
from tests.scheduling.twins.documents.numbers import Document, shown
from tests.scheduling.twins.documents.online import Choice, best_of

BY_HAND = "by hand, as the note says, and by trying every schedule"


class Disagree(Exception):
    """What was worked out by hand is not what the twins find."""


def of_dps(name: str, note: str, by_hand: tuple[Any, Any, Any], make: Callable[[], Document], start: str = "ge") -> str:
    """The text of a counterexample of DPS: its optimum, and what the listing reports and earns."""
    convention = dps_twin.Convention("half_open", start)
    document = make() | {"conventions": {"window": convention.window, "start": convention.start}}
    cluster = dps_twin.Cluster(document, convention)
    (job,), used = document["jobs"], cluster.first_usage()
    best, listing = cluster.choices(job, used), printed(cluster, job, used)
    optimum = max(0.0, shown(best[0].payoff)) if best else 0.0
    reported, true = (0.0, 0.0) if listing is None else (shown(listing.reported), shown(listing.true))
    if (optimum, reported, true) != by_hand:
        raise Disagree(f"{name}: {(optimum, reported, true)}, by hand {by_hand}")
    return document_text(
        {
            "name": name,
            "note": note,
            "proof": BY_HAND,
            "instance": document,
            "results": {"printed": {"reported_payoff": reported, "true_payoff": true}},
            "optimal_payoff_21": optimum,
        }
    )


def of_oasis(name: str, note: str, by_hand: tuple[Any, Any, int], make: Callable[[], Document]) -> str:
    """The text of a counterexample of OASiS: its optimum and slot, and what the printed recursion earns."""
    document = make()
    cluster = oasis_twin.Cluster(document)
    (job,), used = document["jobs"], cluster.first_usage()
    exact, whole = (
        best_of(Choice(*rest) for rest in cluster.plans(job, used, chunks=chunks)) for chunks in (False, True)
    )
    recursion = shown(whole[0].payoff) if whole and whole[0].payoff > 0 else 0.0
    found = (shown(exact[0].payoff), recursion, exact[0].t_hat)
    if found != by_hand:
        raise Disagree(f"{name}: {found}, by hand {by_hand}")
    return document_text(
        {
            "name": name,
            "note": note,
            "proof": BY_HAND,
            "instance": document,
            "alg2_printed_payoff": recursion,
            "optimal_payoff_27": found[0],
            "optimal_t_hat": found[2],
        }
    )


def two_servers(slots: int, rows: list[Document], job: Document, **other: Any) -> Document:
    """Two servers and one job, whose idle machines cost nothing."""
    return dps.instance(slots, rows, [job], **{"eta": ([4], [4])} | other)


def one_move(worker_eta: Any) -> Document:
    """Five workers of a quarter of a PS: free on the first server, on the other half in use, where a PS costs 3."""
    return two_servers(
        3,
        [server(5, 0), server(10, 4)],
        dps.job(1, 5, step(30, 1), servers=2),
        eta=([worker_eta], [16]),
        initial_worker_usage=dps.in_use(3, {}, [[0], [5]]),
        initial_ps_usage=dps.in_use(3, {}, [[0], [2]]),
    )


DPS: dict[str, tuple[Any, ...]] = {
    "dps_host_without_workers": (
        "Workers fit the first server only and PSs the second only. Lines 20 to 35 store a placement once a worker has "
        "moved to the host, and none can: rejected, though it costs nothing and is worth 8.",
        (8.0, 0.0, 0.0),
        lambda: two_servers(3, [server(2, 0), server(0, 1)], dps.job(1, 2, constant(8), servers=2)),
    ),
    "dps_host_is_full_of_own_workers": (
        "One worker on each of two servers, and the PS beside the second one: no worker can move there, so nothing is "
        "stored; it costs nothing and is worth 7.",
        (7.0, 0.0, 0.0),
        lambda: two_servers(3, [server(1, 0), server(1, 1)], dps.job(1, 2, step(7, 1), servers=2)),
    ),
    "dps_together_by_the_first_price": (
        "Two workers for three slots. On the first server they cost nothing in slot 1 and 7 each in slots 2 and 3, in "
        "all 28; on the second 1 each in every slot, in all 6. COST_C looks at slot 1: 20 - 28 is a loss, so rejected, "
        "where 20 - 6 = 14 could be had.",
        (14.0, 0.0, 0.0),
        lambda: two_servers(
            5,
            [server(8, 2), server(4, 2)],
            dps.job(1, 2, step(20, 3), servers=2, epochs=3),
            eta=([16], [16]),
            initial_worker_usage=dps.in_use(5, {1: [[0], [1]]}, [[6], [1]]),
        ),
    ),
    "dps_apart_by_the_first_price": (
        "Only the first server hosts PSs. A worker for three slots costs 0 + 2 + 2 on the second and 2 + 0 + 0 on the "
        "third. COST_D fills the second, as it is free in slot 1: 9 - 4 = 5 instead of 9 - 2 = 7.",
        (7.0, 5.0, 5.0),
        lambda: two_servers(
            5,
            [server(0, 1), server(2, 0), server(2, 0)],
            dps.job(1, 1, step(9, 3), servers=3, epochs=3),
            eta=([9], [2]),
            initial_worker_usage=dps.in_use(5, {1: [[0], [0], [1]]}, [[0], [1], [0]]),
        ),
    ),
    "dps_move_from_the_host_to_itself": (
        "Two workers on the first server, which has two to spare, and one PS for each worker, of which all idle ones "
        "cost 7. Together they need one PS, which costs more than the job's 5. The listing moves both from the "
        "host to itself and saves two PSs that it never counted: it reports 5 + 14 and earns 5 - 7.",
        (0.0, 19.0, -2.0),
        lambda: two_servers(
            3,
            [server(4, 2), server(1, 0)],
            dps.job(1, 2, step(5, 1), servers=2),
            pss=[50],
            eta=([4], [64]),
            initial_ps_usage=dps.in_use(3, {}, [[1], [0]]),
        ),
    ),
    "dps_part_of_a_ps_stops_the_move": (
        "A worker needs a quarter of a PS, and on the host costs 1. Five away need two PSs, 6; one beside it saves "
        "a whole PS: 1 + 3 = 4, so 26. Line 24 compares 1 with a quarter of 3, stops, and all on the host cost 5 + 3.",
        (26.0, 22.0, 22.0),
        partial(one_move, 4),
    ),
    "dps_all_move_where_one_is_enough": (
        "As before, but a worker on the host costs 1/2: one beside it comes to 1/2 + 3, so 26.5. Line 25 moves all "
        "five, which costs 5/2 + 3, so 24.5; what it reports is 15/4 - 5/4, so 27.5.",
        (26.5, 27.5, 24.5),
        partial(one_move, "2.25"),
    ),
    "dps_start_at_arrival": (
        "One slot of work, T = 2: by (13) it may start at r + Delta = 1 and is complete at 2, worth 6 at no cost.",
        (6.0, 6.0, 6.0),
        lambda: two_servers(2, [server(1, 1)], dps.job(1, 1, constant(6), servers=1)),
    ),
    "dps_start_after_arrival": (
        "The same by the strict inequality of line 4: a start at 2 completes at 3, after T, so rejected.",
        (0.0, 0.0, 0.0),
        lambda: two_servers(2, [server(1, 1)], dps.job(1, 1, constant(6), servers=1)),
        "strict",
    ),
}

OASIS: dict[str, tuple[Any, ...]] = {
    "oasis_whole_chunks_do_not_fit": (
        "Seven chunks of 0.4 slots are 2.8, so 3 worker-slots, and T = 3. A slot trains two whole chunks, so seven of "
        "them need four slots: rejected. Each slot costs 0.2 for the worker and 0.2 for the PS: 6 - 1.2 = 4.8.",
        (4.8, 0.0, 3),
        lambda: oasis.instance(
            3, [[1]], [[1]], [oasis.job(1, 7, constant(6), tau="0.4", ps_bw=100)], prices=("0.2", 16)
        ),
    ),
    "oasis_whole_chunks_cost_more": (
        "Six chunks of 0.75 slots are 4.5, so 5 worker-slots at 1 for a worker and 1 for the PS that each needs; whole "
        "chunks take a worker-slot each, 6. So 20 - 10 and 20 - 12.",
        (10.0, 8.0, 3),
        lambda: oasis.instance(
            3, [[2], [2]], [[9]], [oasis.job(1, 2, step(20, 2), epochs=3, tau="0.75", ps_bw=100)], prices=(1, 1)
        ),
    ),
    "oasis_chunk_longer_than_workers": (
        "A chunk takes 2.5 slots and there are two workers at most, so no slot trains one: rejected. Two workers in "
        "slots 1 and 2 and one in slot 3 do the work, at 0.5 for each worker and for one PS a slot: 9 - 2.5 - 1.5.",
        (5.0, 0.0, 3),
        lambda: oasis.instance(
            3, [[2]], [[2]], [oasis.job(1, 2, step(9, 2), tau="2.5", ps_bw=200)], prices=("0.5", "0.5")
        ),
    ),
    "oasis_ranges_of_the_paper": (
        "N = 4, M = 80 and tau = 0.1, as the paper draws them: a chunk takes 8 > N worker-slots, so the recursion "
        "always rejects. Four workers and two PSs for eight slots do it, at 1/64 for each: 40 - 32/64 - 16/64.",
        (39.25, 0.0, 8),
        lambda: oasis.instance(
            8, [[4]], [[2]], [oasis.job(1, 4, step(40, 7), minibatches=80, tau="0.1")], prices=("0.015625", "0.015625")
        ),
    ),
    "oasis_ceiling_in_doubles": (
        "25 workers of 28 Mbit/s on PSs of 100: 25 x 28 / 100 is 7, which are all there are; in doubles it is more, "
        "and its ceiling 8. At 1/32 for each machine: 12 - 25/32 - 7/32 = 11, whole chunks or not.",
        (11.0, 11.0, 1),
        lambda: oasis.instance(
            1,
            [[25]],
            [[7]],
            [oasis.job(1, 25, constant(12), worker_bw=28, ps_bw=100)],
            prices=("0.03125", "0.03125"),
        ),
    ),
}

MAKERS = {
    f"cases/counterexamples/{name}.json": partial(make, name, *row)
    for make, rows in ((of_dps, DPS), (of_oasis, OASIS))
    for name, row in rows.items()
}
"""The text of each file, by its path in `tests/data`."""
