"""The demo with bids already decided: `python -m tests.e2e.filled [BIDS]`."""

import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Final

import django

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from demo.scenarios import Scenario

PASSWORD: Final = "only-for-tests"
JOBS: Final = 25
"""Jobs of each run of the experiment: the default number of the form would double the time of these tests."""


def fill_markets(bids: int) -> "User":
    """Import the demo clusters, open their markets, and let two bidders bid under clocks that are set by hand.

    The first of them is returned.
    """
    from django.contrib.auth.models import User

    from demo.scenarios import SCENARIOS

    User.objects.create_superuser("operator", password=PASSWORD)
    bidders = [User.objects.create_user(name, password=PASSWORD) for name in ("alice", "bob")]
    for scenario in SCENARIOS:
        fill_one(scenario, bidders, bids)
    return bidders[0]


def fill(bids: int) -> None:
    """The markets, plans, experiments and counterfactuals."""
    owner = fill_markets(bids)
    fill_plans(owner)
    fill_counterfactuals()
    fill_experiments(owner)
    fill_webhook()


def fill_webhook() -> None:
    """A webhook of the operator with a message, switched off: nothing is sent from a test."""
    from django.contrib.auth.models import User

    from auctions.webhooks.hooks import WebhookRequest, create, switch_off
    from auctions.webhooks.messages import add_test

    made = create(User.objects.get(username="operator"), WebhookRequest("chat", "https://example.org/hook"))
    add_test(made.webhook)
    switch_off(made.webhook, "no message was delivered for 3 days")


def fill_plans(owner: "User") -> None:
    """A plan of split learning, the other methods beside it, another helper, and the plan made again."""
    from studies.split_learning.plans.plan_request import PlanRequest
    from studies.split_learning.plans.submission import compare_methods, submit_extra_helper, submit_plan, submit_replan
    from tests.studies.plans.here import compute_here

    scenario = {"number": 1, "model": "resnet101", "clients": 10, "helpers": 2, "seed": 1}
    plan = submit_plan(owner, PlanRequest.from_json({"scenario": scenario, "label": "ten devices", "seconds": 2}))
    compare_methods(owner, plan)
    submit_extra_helper(owner, plan)
    while compute_here():
        pass
    plan.refresh_from_db()
    submit_replan(
        owner, plan, PlanRequest.to_replan(plan, {"changes": {"drop": ["client-3"], "slower": {"client-1": 2}}})
    )
    compute_here()


def fill_counterfactuals() -> None:
    """What first come, first served would have made of each market."""
    from django.contrib.auth.models import User

    from auctions.models import Market
    from scheduling.registry import make_policy
    from studies.counterfactuals.computing import compute_next
    from studies.counterfactuals.requests import CounterfactualRequest, create

    for market in Market.objects.all():
        create(User.objects.get(username="operator"), market, CounterfactualRequest(make_policy("fifo", {})))
    while compute_next():
        pass


def fill_experiments(owner: "User") -> None:
    """A trace with a malformed line, and policies compared on a drawn workload."""
    from frontend.forms.experiment import READY_MADE
    from studies.experiments.api.examples import TRACE_TEXT
    from studies.experiments.readings import visible_traces
    from studies.experiments.request import ExperimentRequest
    from studies.experiments.requests import create
    from studies.workloads.traces.upload import keep
    from tests.studies.experiments.here import compute_here

    keep(owner, f"{TRACE_TEXT}no job\n", label="four jobs", source="four.csv")
    workload = READY_MADE["workloads"][0]
    smaller = READY_MADE | {"workloads": [workload | {"setting": workload["setting"] | {"jobs": JOBS}}]}
    create(owner, ExperimentRequest.from_json(smaller, visible_traces(owner)))
    compute_here()


def fill_one(scenario: "Scenario", bidders: "list[User]", bids: int) -> None:
    """One market, its bids sent in turn, the last third at once: a crowd.

    Prices do not learn from two bidders, so DPS has initial prices at which a bid of hardly any value is rejected;
    and a rejection is final unless a bid says otherwise.
    """
    from auctions.engine import decision_queue, slots
    from auctions.engine.policies import change_policy
    from auctions.engine.submission import submit_bid
    from auctions.readings import certificates
    from cluster.clock import set_clock
    from cluster.models import Cluster
    from demo.jobs import machines_of
    from demo.world import market_of
    from tests.auctions.worlds import PRICED

    market = market_of(scenario, seed=1)
    if scenario.policy == "dps":
        Cluster.objects.filter(pk=market.cluster_id).update(standing_by_default=False)
        change_policy(market, name="dps", parameters=dict(PRICED), by=None)
    offers = scenario.offers(machines_of(market.cluster), seed=1, number=1, from_s=0.0)
    for i, offer in enumerate(islice(offers, bids)):
        if i <= 2 * bids // 3:
            set_clock(market.cluster, running=False, at_s=offer.at_s)
            slots.pass_slots(market.pk)
        submit_bid(cluster=market.cluster, owner=bidders[i % 2], body=offer.body)
        decision_queue.process_pending(market.pk)
    certificates.renew(market.pk)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    fill(int(sys.argv[1]) if len(sys.argv) > 1 else 150)
