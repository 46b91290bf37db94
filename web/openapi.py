"""Descriptions of operations for the OpenAPI document, errors included."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from scheduling.model.types import Json
from web.headers import LONGEST_KEY, LONGEST_WAIT_S
from web.parameters import LARGEST_SLOT
from web.problems import CONTENT_TYPE
from web.schema import Problem

WORDS: Final = {
    400: "A field, parameter or header is wrong; `errors` names it.",
    401: "No token, or one that is not known.",
    403: "Not allowed.",
    404: "Nothing is there, or it is somebody else's.",
    405: "This address does not know the method.",
    406: "Answers are JSON.",
    409: "Closed market, a key that came with another body, a state in which this is not possible, or a bid on which"
    " the policy fails.",
    413: "The body is too large.",
    415: "Bodies are JSON.",
    429: "Too many requests; Retry-After says when to come again.",
    503: "The server has just started, or it or its database is busy; Retry-After says when to come again.",
}
READ: Final = (400, 401, 403, 404, 405, 406, 429, 503)
WRITE: Final = (*READ, 409, 413, 415)

SLOT: Final = {"type": "integer", "minimum": -LARGEST_SLOT, "maximum": LARGEST_SLOT}
KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": r"^[\x21-\x7e]+$"},
    OpenApiParameter.HEADER,
    description="Sending the same key and body again is safe: it answers with what is stored.",
)
PREFER = OpenApiParameter(
    "Prefer",
    str,
    OpenApiParameter.HEADER,
    description=f"`wait=5` waits for the decision, at most {LONGEST_WAIT_S} seconds.",
)


def answered(name: str, text: str, codes: list[int]) -> OpenApiParameter:
    """A header of answers."""
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=text, response=codes)


REPLAYED = answered("Idempotency-Replayed", "`true` if the key came before: nothing was stored again.", [200, 202])


def close_requests(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Say that a body holds no key but those described; for drf-spectacular, which leaves that open."""
    for name, schema in result["components"]["schemas"].items():
        if name.endswith("In"):
            schema["additionalProperties"] = False
    return result


class DescribeOneOf(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Describes the shapes that a `OneOf` field takes, for drf-spectacular."""

    target_class = "web.fields.OneOf"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        """Return the schema of each shape; none has other keys."""
        return {
            "oneOf": [
                {"title": name, **auto_schema._map_basic_serializer(shape, direction), "additionalProperties": False}
                for name, shape in self.target.shapes.items()
            ]
        }


def query(name: str, kind: Any, text: str, **more: Any) -> OpenApiParameter:
    """A query parameter."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=text, **more)


def describe(
    summary: str, answers: Mapping[Any, Any], errors: tuple[int, ...], **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Document a method: its answers, and a problem document for each error."""
    responses: dict[Any, Any] = dict(answers)
    for code in errors:
        responses[(code, CONTENT_TYPE)] = OpenApiResponse(Problem, description=WORDS[code])
    decorate: Callable[[Callable[..., Any]], Callable[..., Any]] = extend_schema(
        summary=summary, responses=responses, **more
    )
    return decorate


def examples(bodies: dict[str, Json]) -> list[OpenApiExample]:
    """Examples of a request's body."""
    return [OpenApiExample(name, value=body, request_only=True) for name, body in bodies.items()]


PAGES: Final = [
    query("cursor", str, "From `next` or `previous` of a page."),
    query("page_size", {"type": "integer", "minimum": 1, "maximum": 200}, "Rows on a page; 50 if not given."),
]
