"""REST operation that evaluates a plan under noisy times."""

from typing import Final

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from studies.models import Plan
from studies.split_learning.api.base import plan_found
from studies.split_learning.plans.noise import (
    DRAWS,
    LARGEST_SPREAD,
    MOST_CELLS,
    MOST_DRAWS,
    SPREAD,
    TOGETHER,
    Draws,
    noise_of,
)
from studies.split_learning.plans.readings import NothingYet
from studies.split_learning.schemas.answers import NoiseOut
from web.openapi import READ, describe, query
from web.parameters import wrong_parameters
from web.views import ApiView

DRAWN: Final = [
    query(
        "spread",
        {"type": "number", "minimum": 0, "maximum": LARGEST_SPREAD},
        "Each time is multiplied by a factor of its own, uniform in 1 - spread to 1 + spread;"
        f" {SPREAD:g} if not given.",
    ),
    query(
        "draws",
        {"type": "integer", "minimum": 1, "maximum": MOST_DRAWS},
        f"Number of draws of all times; {DRAWS}, or fewer for a large instance, if not given. Draws x clients x"
        f" (helpers + clients / {TOGETHER}) may be {MOST_CELLS:,} at most.",
    ),
    query("seed", {"type": "integer", "minimum": 0, "maximum": 10**9}, "Seed of the draws; 0 if not given."),
]


class UnderNoise(ApiView):
    """Evaluate one plan under times that differ from the planned ones."""

    @describe(
        "Evaluate a plan under noise",
        {200: NoiseOut},
        READ,
        parameters=DRAWN,
        reads=lambda request, plan: _draws(request, plan_found(request, plan)),
        operation_id="plans_noise",
    )
    def get(self, request: Request, plan: int) -> Response:
        """Return the makespan if helpers follow priorities, run passes in order of arrival, or get new priorities.

        The assignment does not change and nothing is stored. Answers 404 while there is no plan.
        """
        found = plan_found(request, plan)
        parameters = _draws(request, found)
        try:
            return Response(NoiseOut.write(noise_of(found, parameters)))
        except NothingYet as error:
            raise Http404(str(error)) from None


def _draws(request: Request, plan: Plan) -> Draws:
    """Return the draws that the query asks for; what is wrong in itself counts as not given."""
    wrong = wrong_parameters(request, DRAWN)
    return Draws.of_query(plan, {name: text for name, text in request.query_params.dict().items() if name not in wrong})
