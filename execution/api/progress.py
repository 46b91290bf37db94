"""The operation by which a program reports its progress, with the token of its generation."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from drf_spectacular.authentication import TokenScheme
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle

from auctions.api import fields
from execution import records
from execution.models import Generation
from execution.places import LARGEST_LOSS, LARGEST_STEP, LONGEST_STEP_S, Point
from execution.tokens import generation_of
from web.fields import Integer, Number, Rows
from web.openapi import WRITE, describe, examples
from web.schema import Schema
from web.throttles import CallerThrottle
from web.views import ApiView
from web.writing import Answer

MOST_REPORTED: Final = 1_000
"""Steps in one report at most."""
EXAMPLE: Final = {"steps": [{"step": 41, "loss": 0.52, "seconds": 0.8}, {"step": 42, "loss": 0.5, "seconds": 0.8}]}


class ReportedStepIn(Schema):
    step = Integer(0, LARGEST_STEP, help_text="Number of steps done.")
    loss = Number(-LARGEST_LOSS, LARGEST_LOSS, required=False, allow_null=True, help_text="Loss.")
    seconds = Number(0, LONGEST_STEP_S, required=False, allow_null=True, help_text="Duration of this step, seconds.")


class ReportedProgressIn(Schema):
    steps = Rows(ReportedStepIn(), least=1, most=MOST_REPORTED, help_text="Steps that were done since the last report.")


class ReportedProgressOut(Answer):
    step = fields.number("Greatest step that it has reported.", source="training.step")


class GenerationToken(TokenAuthentication):
    """Accepts the token of a generation, and no user's; `request.auth` is the generation."""

    def authenticate_credentials(self, key: str) -> Any:
        """Return nobody, and the generation of the token."""
        generation = generation_of(key)
        if generation is None:
            raise AuthenticationFailed("This is not a token of a running program.")
        return AnonymousUser(), generation


class DescribeGenerationToken(TokenScheme):  # type: ignore[no-untyped-call]
    """Describes the token of a generation under a name of its own, for drf-spectacular."""

    target_class = "execution.api.progress.GenerationToken"
    name = "programToken"
    priority = 1


class HasGeneration(BasePermission):
    """Lets only programs in."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the request had the token of a generation."""
        return isinstance(request.auth, Generation)


class ProgressThrottle(SimpleRateThrottle):
    """A limit on reports of one generation."""

    scope = "progress"

    def get_cache_key(self, request: Request, view: Any) -> str:
        """Return the generation."""
        return self.cache_format % {"scope": self.scope, "ident": getattr(request.auth, "pk", None)}


class ReportProgress(ApiView):
    """Report the progress of a generation."""

    authentication_classes = (GenerationToken,)
    permission_classes = (HasGeneration,)
    throttle_classes = (CallerThrottle, ProgressThrottle)

    @describe(
        "Report progress",
        {200: ReportedProgressOut},
        WRITE,
        request=ReportedProgressIn,
        examples=examples({"Two steps": EXAMPLE}),
        operation_id="progress_report",
    )
    def post(self, request: Request) -> Response:
        """For programs: report steps to SHADOWPRICE_URL, with SHADOWPRICE_TOKEN instead of a user's token. 409 once the
        generation has ended.
        """
        generation: Any = request.auth
        steps = ReportedProgressIn.read(request.data)["steps"]
        points = [Point(one["step"], one.get("loss"), one.get("seconds")) for one in steps]
        return Response(ReportedProgressOut.write(records.report(generation, points)))
