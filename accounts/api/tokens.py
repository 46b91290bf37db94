"""Operations on a user's own tokens."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import tokens
from accounts.api.fields import VisibleCluster
from accounts.models import LONGEST_NAME, Scope, Token
from accounts.tokens import LONGEST_DAYS, LONGEST_OVERLAP_S, NewToken
from web.fields import Choice, Integer, Text
from web.headers import submitted
from web.openapi import PAGES, READ, WRITE, describe, examples, location
from web.pagination import Page, page_of
from web.schema import Schema
from web.views import ApiView, one_of, user_of
from web.writing import Answer


class NewTokenIn(Schema):
    name = Text(LONGEST_NAME, line=True, help_text="Name by which you know it.")
    scope = Choice(
        Scope.values,
        help_text="The largest right: read (no change), bid (as a bidder), operate (all that you may do).",
    )
    cluster = VisibleCluster(
        60, required=False, allow_null=True, help_text="The only cluster that it is for; all if not given."
    )
    expires_in_days = Integer(
        1, LONGEST_DAYS, required=False, allow_null=True, help_text="Days until it ends; without end if not given."
    )


class RotateIn(Schema):
    overlap_s = Integer(
        0, LONGEST_OVERLAP_S, required=False, default=0, help_text="Seconds for which the old token is accepted, too."
    )


class UserTokenOut(Answer):
    id = serializers.IntegerField(source="pk", help_text="Number of the token.")
    name = serializers.CharField(help_text="Name by which its user knows it.")
    hint = serializers.CharField(help_text="First characters of the token.")
    scope = serializers.ChoiceField(Scope.values, help_text="The largest right.")
    cluster = serializers.CharField(
        source="cluster.name", allow_null=True, help_text="The only cluster that it is for; null for all."
    )
    created_at = serializers.DateTimeField(help_text="Time at which it was issued, wall clock, ISO 8601.")
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Time from which it is not accepted, wall clock, ISO 8601; null if it has no end."
    )
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="Last use, up to a minute late, wall clock, ISO 8601; null if it was never used."
    )


class IssuedTokenOut(UserTokenOut):
    token = serializers.CharField(help_text="The token, which is shown this once: the service stores a digest.")


class UserTokenPage(Page):
    results = UserTokenOut(many=True, help_text="Your tokens, newest first, expired ones included.")


class Tokens(ApiView):
    """List and issue tokens."""

    scope_of_changes = Scope.OPERATE

    @describe("List your tokens", {200: UserTokenPage}, READ, parameters=PAGES, operation_id="tokens_list")
    def get(self, request: Request) -> Response:
        """Your tokens, without their texts. Expired ones are listed for 30 days."""
        return page_of(self, request, tokens.of_user(user_of(request)), UserTokenPage)

    @describe(
        "Issue a token",
        {201: IssuedTokenOut},
        WRITE,
        request=NewTokenIn,
        reads=lambda request: NewTokenIn.read(request.data, user=user_of(request)),
        parameters=[location("token", [201])],
        examples=examples({"For a script": {"name": "nightly script", "scope": "bid", "expires_in_days": 90}}),
        operation_id="tokens_create",
    )
    def post(self, request: Request) -> Response:
        """The only answer with the token itself. A token with which another one is issued must have scope operate, and
        the new one ends no later. 409 if you have 100 tokens.
        """
        body = NewTokenIn.read(request.data, user=user_of(request))
        new = NewToken(body["name"], body["scope"], body.get("cluster"), body.get("expires_in_days"))
        return _answer(tokens.issue(user_of(request), new, with_token=_token_of(request)))


class OneToken(ApiView):
    """Read and end one token."""

    scope_of_changes = Scope.OPERATE

    @describe("Read a token", {200: UserTokenOut}, READ, operation_id="tokens_read")
    def get(self, request: Request, token: int) -> Response:
        """One of your tokens, without its text."""
        return Response(UserTokenOut.write(_found(request, token)))

    @describe("End a token", {204: None}, WRITE, operation_id="tokens_delete")
    def delete(self, request: Request, token: int) -> Response:
        """It is not accepted from now on."""
        tokens.end(_found(request, token))
        return Response(status=204)


class RotateToken(ApiView):
    """Replace one token."""

    scope_of_changes = Scope.READ
    of_any_token = True

    @describe(
        "Replace a token",
        {201: IssuedTokenOut},
        WRITE,
        request=RotateIn,
        operation_id="tokens_rotate",
        parameters=[location("token", [201])],
        examples=examples({"While programs change over": {"overlap_s": 3600}}),
    )
    def post(self, request: Request, token: int) -> Response:
        """A new token of the same name, scope, cluster and duration; the old one ends, after `overlap_s` seconds. Each
        token may replace itself; for others it needs scope operate, and the new one may end no later than it. 409 if
        it has expired, or if you have 100 tokens and the old one is to be accepted for a while.
        """
        body, found, own = RotateIn.read(request.data), _found(request, token), _token_of(request)
        if own is not None and own.pk != found.pk and (own.scope != Scope.OPERATE or own.cluster is not None):
            raise PermissionDenied("This token may replace itself only.")
        return _answer(tokens.rotate(found, overlap_s=body["overlap_s"], with_token=own))


def _answer(issued: tokens.Issued) -> Response:
    document: dict[str, Any] = {**UserTokenOut.write(issued.token), "token": issued.text}
    response = submitted(document, status=201, location=reverse("api-token-of-user", args=[issued.token.pk]))
    response["Cache-Control"] = "no-store"
    return response


def _token_of(request: Request) -> Token | None:
    return request.auth if isinstance(request.auth, Token) else None


def _found(request: Request, number: int) -> Token:
    return one_of(tokens.of_user(user_of(request)), f"You have no token {number}.", pk=number)
