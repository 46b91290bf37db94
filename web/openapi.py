"""Descriptions of operations for the OpenAPI document, errors included."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from threading import Lock
from typing import Any, Final

from django.http import Http404, HttpResponse
from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request

from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from web.errors import ServiceError
from web.headers import LONGEST_KEY, LONGEST_WAIT_S, idempotency_key
from web.pagination import check_cursor
from web.parameters import LARGEST_SLOT, wrong_parameters
from web.parsers import is_csv
from web.problems import CONTENT_TYPE
from web.schema import Problem, Schema, rows_of

WORDS: Final = {
    400: "A field, parameter or header is wrong; `errors` names it.",
    401: "No token, or one that is not known.",
    403: "Not allowed.",
    404: "It does not exist, or belongs to another user.",
    405: "This address does not know the method.",
    406: "Answers are JSON.",
    409: "Closed market, a key that came with another body, a state in which this is not possible, or a bid on which"
    " the policy fails.",
    413: "The body is too large.",
    415: "Bodies are JSON.",
    429: "Too many requests; Retry-After says when to come again.",
    503: "The server has just started, it is busy, its database is away or busy, the disk of the database is full, or"
    " the database is at the schema of another version; Retry-After says when to come again.",
}
READ: Final = (400, 401, 403, 404, 405, 406, 429, 503)
WRITE: Final = (*READ, 409, 413, 415)

SLOT: Final = {"type": "integer", "minimum": -LARGEST_SLOT, "maximum": LARGEST_SLOT}
NUMBER: Final = {"type": "integer", "minimum": 1}
CSV: Final = {(200, "text/csv"): OpenApiTypes.STR}
"""The answer of an operation that downloads a table."""


def _header(name: str, kind: Any, text: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.HEADER, description=text, **more)


def _place(name: str, kind: Any, text: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.PATH, description=text, **more)


DEMO: Final = OpenApiExample("The cluster of the demo", value="demo")
PLACES: Final = {
    "cluster": _place("cluster", str, "Name of the cluster.", examples=[DEMO]),
    "server": _place("server", str, "Name of the server."),
    "sequence": _place("sequence", NUMBER, "The bid's number in its market."),
    "key": _place("key", str, "Name of the process."),
    "team": _place("team", str, "Name of the team."),
    "user": _place("user", str, "User name."),
    "run": _place("run", NUMBER, "Number of the run, from 1."),
    **{
        name: _place(name, NUMBER, f"Number of the {name}.")
        for name in [
            "counterfactual",
            "delivery",
            "experiment",
            "invitation",
            "plan",
            "program",
            "token",
            "trace",
            "webhook",
        ]
    },
}
"""Parts of addresses, by the name of the parameter that takes them."""
KEY: Final = _header(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": r"^[\x21-\x7e]+$"},
    "Sending the same key and body again is safe: it answers with what is stored.",
)


def prefer(until: str) -> OpenApiParameter:
    """The header by which a request waits."""
    return _header("Prefer", str, f"`wait=5` waits {until}, at most {LONGEST_WAIT_S} seconds.")


def answered(name: str, text: str, codes: list[int]) -> OpenApiParameter:
    """A header of answers."""
    return _header(name, str, text, response=codes)


def location(what: str, codes: list[int]) -> OpenApiParameter:
    """The header with the address of what a request created."""
    return answered("Location", f"Address of the {what}.", codes)


REPLAYED: Final = answered(
    "Idempotency-Replayed", "`true` if the key came before: nothing was stored again.", [200, 202]
)
WAITED: Final = answered("Preference-Applied", "`wait=5` if that is how long it was ready to wait.", [200, 201, 202])


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
    """A query parameter; one that is an integer or a number has a minimum and a maximum."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=text, **more)


def describe(
    summary: str,
    answers: Mapping[Any, Any],
    errors: tuple[int, ...],
    *,
    parameters: Sequence[OpenApiParameter] = (),
    request: Any = None,
    reads: Callable[..., object] | None = None,
    **more: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Document a method: its answers, and a problem document for each error.

    Query parameters and the idempotency key are checked as they are described; other parameters are refused. The parts
    of its address are among its arguments. If one is wrong, `reads` reads the rest of the request as the method does,
    so that the error names wrong fields, too; by default the shape `request` reads the body. It stores nothing.
    """
    responses: dict[Any, Any] = dict(answers)
    for code in errors:
        responses[(code, CONTENT_TYPE)] = OpenApiResponse(Problem, description=WORDS[code])
    queries = [one for one in parameters if one.location == OpenApiParameter.QUERY]
    of_csv = isinstance(request, dict)  # beside a JSON body they are unknown

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        read = _body_reader(method.__name__, request) if reads is None else reads

        @wraps(method)
        def checked(view: Any, http: Request, **place: Any) -> Any:
            wrong = wrong_parameters(http, [] if of_csv and not is_csv(http) else queries)
            checks = [check for one, check in ((KEY, idempotency_key), (CURSOR, check_cursor)) if one in parameters]
            _add(wrong, [row for check in checks for row in _refusals(check, http)])
            if wrong:
                raise ValidationError(_add(wrong, _refusals(read, http, **place)))
            return method(view, http, **place)

        places = [PLACES[name] for name in signature(method).parameters if name in PLACES]
        documented: Callable[..., Any] = extend_schema(
            summary=summary, responses=responses, parameters=[*places, *parameters], request=request, **more
        )(checked)
        return documented

    return decorate


def _body_reader(method: str, shape: Any) -> Callable[..., object]:
    """Return the function that reads the body of a request to this method: of a changing one without a shape, none."""
    if shape is None and method != "post":
        return lambda _http, **_place: None
    return lambda http, **_place: (Schema if shape is None else shape).read(http.data)


def _refusals(read: Callable[..., object], http: Request, **place: Any) -> Iterator[tuple[str, str]]:
    """Yield field and message of what `read` refuses; other answers than 400 are given when nothing else is wrong."""
    try:
        read(http, **place)
    except InvalidField as error:
        yield from ((one.field or "body", one.problem) for one in error.all_wrong)
    except ValidationError as error:
        yield from ((row["field"] or "body", row["message"]) for row in rows_of(error.detail))
    except (APIException, Http404, ServiceError):
        return


def _add(wrong: dict[str, list[str]], rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Add what is wrong with fields that are not named yet."""
    named = set(wrong)
    for field, message in rows:
        if field not in named:
            wrong.setdefault(field, []).append(message)
    return wrong


def examples(bodies: dict[str, Json]) -> list[OpenApiExample]:
    """Examples of a request's body."""
    return [OpenApiExample(name, value=body, request_only=True) for name, body in bodies.items()]


CURSOR: Final = query("cursor", str, "From `next` or `previous` of a page.")
PAGES: Final = [
    CURSOR,
    query("page_size", {"type": "integer", "minimum": 1, "maximum": 200}, "Rows on a page; 50 if not given."),
]


class Description(SpectacularAPIView):
    """The OpenAPI document, which anybody may read without a limit: it takes seconds to write, and is written once."""

    permission_classes = ()
    throttle_classes = ()
    http_method_names = ("get", "head")  # OPTIONS would be answered as if it were an OpenAPI document

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Return the document in the format that the request accepts."""
        renderer = request.accepted_renderer
        with _WRITING:  # of requests at the same time the first one writes
            document = _written(renderer.media_type)
        return HttpResponse(
            document,
            content_type=renderer.media_type + ("; charset=utf-8" if renderer.charset else ""),
            headers={"Content-Disposition": f'inline; filename="Shadowprice.{renderer.format}"'},
        )


_WRITING: Final = Lock()


@cache
def _written(media_type: str) -> bytes:
    """Return the document in one of the formats of the view."""
    generator: Any = SchemaGenerator
    schema = generator().get_schema(request=None, public=True)
    renderer: Any = next(kind for kind in Description.renderer_classes if kind.media_type == media_type)
    return bytes(renderer().render(schema))
