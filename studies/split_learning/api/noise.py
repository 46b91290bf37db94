"""REST operation that evaluates a plan under noisy times."""

from dataclasses import asdict
from typing import Final

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from studies.split_learning.api.base import PLAN, plan_found
from studies.split_learning.api.serializers import NoiseOut
from studies.split_learning.plans.noise import (
    DRAWS,
    KINDS,
    LARGEST_SPREAD,
    MOST_CELLS,
    MOST_DRAWS,
    SPREAD,
    TOGETHER,
    Draws,
    noise_of,
)
from studies.split_learning.plans.stored import NothingYet
from web.openapi import READ, describe, query
from web.parameters import known_parameters
from web.views import ApiView

ASKED: Final = [
    query(
        "spread",
        {"type": "number", "minimum": 0, "maximum": LARGEST_SPREAD},
        "Each time is multiplied by a factor of its own, uniform in 1 - spread to 1 + spread;"
        f" {SPREAD:g} if not given.",
    ),
    query(
        "draws",
        {"type": "integer", "minimum": 1, "maximum": MOST_DRAWS},
        f"How often all times are drawn; {DRAWS}, or fewer for a large instance, if not given. Draws x clients x"
        f" (helpers + clients / {TOGETHER}) may be {MOST_CELLS:,} at most.",
    ),
    query("seed", {"type": "integer", "minimum": 0, "maximum": 10**9}, "Of the draws; 0 if not given."),
]


class UnderNoise(ApiView):
    """Evaluate one plan under times that differ from the planned ones."""

    @describe("Disturb a plan", {200: NoiseOut}, READ, parameters=[PLAN, *ASKED], operation_id="plans_noise")
    def get(self, request: Request, plan: int) -> Response:
        """Return the makespan if helpers follow priorities, run passes in order of arrival, or get new priorities.

        The assignment does not change and nothing is stored. Answers 404 while there is no plan.
        """
        known_parameters(request, "spread", "draws", "seed")
        found = plan_found(request, plan)
        asked = Draws.of_query(found, request.query_params.dict())
        try:
            noise = noise_of(found, asked)
        except NothingYet as error:
            raise Http404(str(error)) from None
        return Response(
            {
                "spread": asked.spread,
                "seed": asked.seed,
                "planned": noise.planned,
                **{kind: {"mean": noise.mean(kind), "worst": noise.worst(kind)} for kind in KINDS},
                "draws": [asdict(draw) for draw in noise.draws],
            }
        )
