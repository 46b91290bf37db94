"""Areas of the code: the sources that are changed, and the tests that have to notice."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Area:
    """Sources that are changed, and the tests that have to notice."""

    sources: tuple[str, ...]
    """Paths or patterns below the root; `path::f,C.g` stands for a function and a method of a file."""
    tests: tuple[str, ...]
    """Arguments of pytest; the fastest and most effective tests come first."""
    weight: int
    """Number of mutants of the area among `WHOLE`."""


AREAS: Final = {
    "prices": Area(
        (
            "scheduling/pricing/price_function.py",
            "scheduling/pricing/quantile.py",
            "scheduling/pricing/pooling.py",
            "scheduling/pricing/paper.py",
        ),
        (
            "tests/scheduling/test_prices.py",
            "tests/scheduling/test_pooling.py",
            "tests/scheduling/test_quantile_prices.py",
            "tests/scheduling/test_dps.py",
            "tests/scheduling/test_oasis.py",
            "tests/scheduling/test_paper_bounds.py",
            "tests/scheduling/test_oasis_instance.py",
        ),
        4,
    ),
    "ledger": Area(
        ("scheduling/book/ledger.py", "scheduling/book/running.py"),
        (
            "tests/scheduling/test_ledger.py",
            "tests/scheduling/test_running_book.py",
            "tests/scheduling/test_offer_history.py",
            "tests/scheduling/test_preemptive_policy.py",
            "tests/scheduling/test_closed_servers.py",
        ),
        4,
    ),
    "rigid kernel": Area(
        (
            "scheduling/best_response/rigid/kernel.py",
            "scheduling/best_response/rigid/bounds.py",
            "scheduling/best_response/rigid/durations.py",
            "scheduling/best_response/rigid/index.py",
            "scheduling/best_response/rigid/job.py",
            "scheduling/best_response/rigid/placement.py",
            "scheduling/best_response/rigid/search.py",
            "scheduling/best_response/rigid/tables.py",
        ),
        (
            "tests/scheduling/test_rigid_durations.py",
            "tests/scheduling/test_rigid.py",
            "tests/scheduling/test_rigid_bounds.py",
            "tests/scheduling/test_ring.py",
            "tests/scheduling/test_rigid_compiled.py",
        ),
        2,
    ),
    "planner kernel": Area(
        ("scheduling/batch/kernel.py", "scheduling/batch/options.py", "scheduling/batch/capacity.py"),
        ("tests/scheduling/test_planner.py",),
        1,
    ),
    "elastic kernel": Area(
        ("scheduling/best_response/elastic/*.py",),
        ("tests/scheduling/test_elastic.py", "tests/scheduling/test_elastic_compiled.py"),
        2,
    ),
    "posted price": Area(
        ("scheduling/policies/posted_price.py", "scheduling/pricing/density.py"),
        (
            "tests/scheduling/test_density.py",
            "tests/scheduling/test_kept_promise.py",
            "tests/scheduling/test_dps.py",
            "tests/scheduling/test_oasis.py",
            "tests/scheduling/test_counter_offers.py",
            "tests/scheduling/test_standing.py",
            "tests/scheduling/test_closed_servers.py",
        ),
        3,
    ),
    "transitions": Area(
        ("auctions/domain/transitions.py", "auctions/engine/decision_queue.py", "auctions/engine/decide.py"),
        (
            "tests/auctions/test_decision_queue.py",
            "tests/auctions/test_jobs_and_slots.py",
            "tests/auctions/test_planning.py",
            "tests/auctions/test_quarantine.py",
            "tests/auctions/test_wake.py",
            "tests/cluster/test_lock_watch.py",
            "tests/auctions/test_queues.py",
            "tests/auctions/test_standing_bids.py",
            "tests/auctions/test_standing_turns.py",
            "tests/auctions/test_early_completion.py",
        ),
        3,
    ),
    "money": Area(
        (
            "auctions/domain/money.py",
            "auctions/domain/refunds.py",
            "auctions/domain/totals.py",
            "auctions/engine/jobs.py",
            "auctions/history/audit_rows.py::receipts_match_rows,payments_rational,charges_match,welfare_adds_up",
        ),
        (
            "tests/auctions/test_jobs_and_slots.py",
            "tests/auctions/test_readings.py",
            "tests/auctions/api/test_quarantined.py",
            "tests/auctions/test_quarantine.py",
            "tests/auctions/test_planning_failures.py",
            "tests/auctions/test_early_completion.py",
            "tests/auctions/test_decision_queue.py::test_a_full_market_rejects_with_a_counter_offer",
            *(
                f"tests/auctions/test_outages.py::{name}"
                for name in (
                    "test_a_promise_on_a_lost_server_fails_and_what_was_not_delivered_is_paid_back",
                    "test_a_promise_that_had_not_begun_is_paid_back_whole",
                    "test_an_operator_fails_a_job_with_the_refund_that_is_chosen",
                    "test_the_audit_finds_a_refund_that_nobody_was_due",
                )
            ),
            "tests/auctions/test_audit.py::test_an_honest_market_passes_every_check",
            "tests/auctions/test_audit.py::test_what_happens_in_another_market_is_not_this_ones_fault",
            *(
                f"tests/auctions/test_audit.py::test_tampering_is_found[{what}]"
                for what in ("a value", "a payment", "a charge", "a charge gone", "a state", "a standalone value")
            ),
        ),
        3,
    ),
    "permissions": Area(
        (
            "cluster/operators.py",
            "cluster/operator_site.py",
            "accounts/permissions.py",
            "accounts/authentication.py",
            "accounts/rights.py",
            "accounts/teams.py::visible_teams,may_administer",
            "auctions/readings/visibility.py",
            "auctions/api/base.py",
            "auctions/api/bids.py::_to_end",
            "auctions/api/filters.py::filtered",
            "auctions/readings/publications.py::sees_all",
            "auctions/readings/gantt.py::bars",
            "auctions/readings/queues.py::displacements",
            "auctions/admin/bids.py::BidAdmin.fail,BidAdmin.retry",
            "auctions/admin/outages.py::OutageAdmin.report_view",
            "studies/split_learning/plans/readings.py::visible_plans",
            "studies/experiments/readings.py::visible_traces,visible_experiments",
            "studies/counterfactuals/readings.py::visible",
            "web/views.py::one_of",
            "frontend/access.py",
            "frontend/views/bids.py::withdraw,retry,cancel,_own",
        ),
        (
            "tests/frontend/test_operators.py",
            "tests/accounts/test_tokens.py",
            "tests/accounts/test_teams.py",
            "tests/accounts/test_invitations.py",
            "tests/auctions/test_readings.py::test_bars_name_only_the_viewers_own_jobs",
            "tests/auctions/api/test_bids.py",
            "tests/auctions/api/test_servers.py",
            "tests/auctions/api/test_quarantined.py",
            "tests/frontend/test_server_pages.py",
            "tests/frontend/test_views.py",
            "tests/auctions/test_outages.py::test_operators_do_it_in_the_admin",
            "tests/frontend/test_queues.py",
            "tests/frontend/test_counterfactual_pages.py",
            "tests/auctions/api/test_large_bodies.py",
            "tests/auctions/api/test_permissions.py",
        ),
        3,
    ),
    "webhooks": Area(
        ("auctions/webhooks/*.py",),
        (
            "tests/auctions/webhooks/test_addresses.py",
            "tests/auctions/webhooks/test_messages.py",
            "tests/auctions/webhooks/test_delivering.py",
            "tests/auctions/webhooks/test_sending.py",
        ),
        2,
    ),
    "execution": Area(
        (
            "execution/capacity.py",
            "execution/ends.py",
            "execution/executor.py",
            "execution/launching.py",
            "execution/lease.py",
            "execution/places.py",
            "execution/restart_costs.py",
            "execution/starting.py",
            "execution/steps.py",
            "execution/wanted.py",
        ),
        (
            "tests/execution/test_steps.py",
            "tests/execution/test_wanted.py",
            "tests/execution/test_places.py",
            "tests/execution/test_ends.py",
            "tests/execution/test_executor.py",
            "tests/execution/test_orders.py",
            "tests/execution/test_defects.py",
            "tests/execution/test_restart_costs.py",
            "tests/execution/test_step_times.py",
            "tests/execution/test_continued.py",
            "tests/execution/test_executor_crashes.py",
            "tests/execution/test_queued_parameter_servers.py",
            "tests/execution/test_api.py",
        ),
        3,
    ),
    "competition": Area(
        (
            "scheduling/competition/contest.py",
            "scheduling/competition/ground.py",
            "scheduling/policies/competition.py",
        ),
        (
            "tests/scheduling/test_contest_ground.py",
            "tests/scheduling/test_competition.py",
            "tests/scheduling/test_rough_plans.py",
            "tests/scheduling/test_every_policy.py",
            "tests/auctions/test_competition.py",
            "tests/auctions/test_competition_credits.py",
        ),
        3,
    ),
}
WHOLE: Final = sum(area.weight for area in AREAS.values())
