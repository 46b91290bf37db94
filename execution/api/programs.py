"""Operations on programs: bring, list, read and close. `execution.programs` has the rules."""

# ruff: noqa: D101, D102 (shapes are named for what they describe, and their fields carry their texts)
import base64
import binascii
import re
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.http import Http404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.rights import operates
from auctions.api.base import market_named
from auctions.api.fields import ClusterName, string, wall_time
from cluster.models import Cluster
from execution import archives, programs
from execution.models import LONGEST_ARGUMENT, MOST_ARGUMENTS, Execution, Program
from scheduling.model.errors import InvalidField, refuse_all
from web.fields import ByName, Rows, Text
from web.headers import submitted
from web.openapi import PAGES, READ, WRITE, describe, examples, location
from web.pagination import Page, page_of
from web.parsers import LargeJSONParser
from web.schema import Schema
from web.views import ApiView, no_body, one_of, user_of
from web.writing import Answer

SMALL_ZIP: Final = (
    "UEsDBBQAAAAAAAAAIQAGHuE8CQAAAAkAAAAGAAAAam9iLnB5cHJpbnQoMSkKUEsBAhQDFAAAAAAAAAAhAAYe4TwJAAAACQAAAAYA"
    "AAAAAAAAAAAAAIABAAAAAGpvYi5weVBLBQYAAAAAAQABADQAAAAtAAAAAAA="
)
"""A zip with the file `job.py`, in base64."""
EXAMPLES: Final = {"A script in a zip": {"name": "mine", "arguments": ["python3", "job.py"], "archive": SMALL_ZIP}}


class ProgramDefinitionIn(Schema):
    name = Text(60, line=True, help_text="Name by which bids name it: letters, digits, dots, dashes and underscores.")
    arguments = Rows(
        Text(LONGEST_ARGUMENT, blank=True),
        least=1,
        most=MOST_ARGUMENTS,
        help_text="The program and its first arguments; no shell reads them.",
    )
    archive = Text(
        4 * archives.LARGEST_ARCHIVE // 3 + 4,
        required=False,
        help_text="Its files: a tar.gz or zip archive in base64. It starts in the directory to which that is unpacked.",
    )
    working_directory = Text(
        400, required=False, help_text="For operators, instead of an archive: directory on the servers."
    )
    environment = ByName(
        Text(4_000, blank=True),
        required=False,
        help_text="Variables of its environment, seen by you and operators.",
    )

    def validate_archive(self, text: str) -> bytes:
        """Decode the archive."""
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ValidationError("expected base64, got other characters") from None


class ProgramOut(Answer):
    id = serializers.IntegerField(source="pk", help_text="Number of the program.")
    cluster = ClusterName(source="*", help_text="Name of the cluster.")
    name = string("Name by which bids name it.")
    owner = string("User who brought it, and whose bids alone may name it; null if it is for all.", null=True)
    arguments = serializers.ListField(child=serializers.CharField(), help_text="The program and its first arguments.")
    working_directory = string("Directory on the servers in which it starts; null with an archive.", null=True)
    archive_sha256 = string("SHA-256 of its archive, hex; null without one.", null=True)
    archive_bytes = serializers.IntegerField(help_text="Size of its archive; 0 without one.")
    is_open = serializers.BooleanField(help_text="Whether new bids may name it.")
    created_at = wall_time("Time at which it was brought")

    @staticmethod
    def owner_of(row: Program) -> str | None:
        return None if row.owner is None else row.owner.get_username()

    @staticmethod
    def working_directory_of(row: Program) -> str | None:
        return row.working_directory or None

    @staticmethod
    def archive_sha256_of(row: Program) -> str | None:
        return row.archive_sha256 or None


class OneProgramOut(ProgramOut):
    environment = serializers.DictField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Variables of its environment; null if it is not yours.",
    )


class ProgramPage(Page):
    results = ProgramOut(many=True, help_text="Programs, newest first.")


class Programs(ApiView):
    """List and bring programs."""

    parser_classes = (LargeJSONParser,)
    body_limit_bytes = settings.PLAN_BODY_LIMIT_BYTES

    @describe("List programs", {200: ProgramPage}, READ, parameters=PAGES, operation_id="programs_list")
    def get(self, request: Request, cluster: str) -> Response:
        """List those of operators and your own, or all for an operator; 404 if the cluster does not execute jobs."""
        found = executing(cluster)
        return page_of(self, request, programs.visible(found, user_of(request)), ProgramPage, cluster=found)

    @describe(
        "Bring a program",
        {201: OneProgramOut},
        WRITE,
        request=ProgramDefinitionIn,
        reads=lambda request, cluster: _check(executing(cluster), user_of(request), request.data),
        parameters=[location("program", [201])],
        examples=examples(EXAMPLES),
        operation_id="programs_create",
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Store a program that only your bids may name; an operator's is for all. 409 if users may bring none here."""
        found = executing(cluster)
        program = programs.create(found, user_of(request), _new(found, user_of(request), request.data))
        address = reverse("api-program", args=[found.name, program.pk])
        return submitted(_written(request, program), status=201, location=address)


class OneProgram(ApiView):
    """Read one program."""

    @describe("Read a program", {200: OneProgramOut}, READ, operation_id="programs_read")
    def get(self, request: Request, cluster: str, program: int) -> Response:
        """Return one program that you may name, or any for an operator."""
        return Response(_written(request, _found(request, cluster, program)))


class CloseProgram(ApiView):
    """Close one program."""

    @describe("Close a program", {200: OneProgramOut}, WRITE, operation_id="programs_close")
    def post(self, request: Request, cluster: str, program: int) -> Response:
        """Let new bids not name it; jobs that were admitted with it still run. For its owner and operators."""
        no_body(request)
        found = _found(request, cluster, program)
        if not programs.may_close(found, user_of(request)):
            raise PermissionDenied("Programs for all are closed by operators.")
        programs.close(found)
        return Response(_written(request, found))


def executing(name: str) -> Cluster:
    """Return the cluster of this name; 404 if its jobs are not executed."""
    cluster = market_named(name).cluster
    if not Execution.objects.filter(cluster=cluster).exists():
        raise Http404(f"Jobs of {cluster.name} are not run by this service.")
    return cluster


def _new(cluster: Cluster, user: User, body: Any) -> programs.NewProgram:
    """Return the program of a body. One error names fields of a wrong shape, and what is wrong with the others."""
    try:
        return programs.NewProgram(**ProgramDefinitionIn.read(body))
    except InvalidField as error:
        named = {re.split(r"[.\[]", one.field)[0] for one in error.all_wrong}
        given = ProgramDefinitionIn(data={key: value for key, value in body.items() if key not in named}, partial=True)
        given.is_valid(raise_exception=True)
        if "working_directory" in named:
            named.add("archive")  # whether it needs one is not known
        new = programs.NewProgram(**{"name": "", "arguments": (), **given.validated_data})
        error.also += tuple(one for one in programs.wrong_fields(cluster, user, new) if one.field not in named)
        raise


def _check(cluster: Cluster, user: User, body: Any) -> None:
    refuse_all(programs.wrong_fields(cluster, user, _new(cluster, user, body)))


def _found(request: Request, cluster: str, number: int) -> Program:
    rows = programs.visible(executing(cluster), user_of(request))
    return one_of(rows, f"There is no program {number} that you may name.", pk=number)


def _written(request: Request, program: Program) -> dict[str, Any]:
    document = OneProgramOut.write(program, cluster=program.cluster)
    if not operates(request.user, program.cluster) and program.owner_id != request.user.pk:
        document["environment"] = None
    return document
