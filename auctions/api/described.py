"""Parameters of operations on markets and bids, for the OpenAPI document."""

from drf_spectacular.utils import OpenApiExample, OpenApiParameter

from web.openapi import REPLAYED, answered

CLUSTER = OpenApiParameter(
    "cluster",
    str,
    OpenApiParameter.PATH,
    description="Name of the cluster.",
    examples=[OpenApiExample("The cluster of the demo", value="demo")],
)
SEQUENCE = OpenApiParameter(
    "sequence", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH, description="The bid's place in the queue."
)
ANSWERED = [
    answered("Location", "Address of the bid.", [200, 201, 202]),
    answered("Preference-Applied", "`wait=5` if that is how long it was ready to wait.", [200, 201, 202]),
    REPLAYED,
]
