"""Operations on a user's own webhooks and their deliveries."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from typing import Any, Final

from django.http import Http404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.fields import VisibleCluster
from accounts.models import Scope
from auctions.models import DeliveryStatus, Webhook
from auctions.models.webhooks import LONGEST_NAME, LONGEST_URL
from auctions.webhooks import hooks, messages
from auctions.webhooks.addresses import checked_url
from auctions.webhooks.hooks import LONGEST_OVERLAP_S, WebhookRequest
from scheduling.model.errors import InvalidField
from web.fields import Choice, Flag, Integer, Rows, Text, Timestamp
from web.headers import submitted
from web.openapi import PAGES, READ, WRITE, describe, examples, location, query
from web.pagination import Page, page_of
from web.schema import Schema
from web.views import ApiView, no_body, one_of, user_of
from web.writing import Answer

ALL_TYPES: Final = (*messages.TYPES, messages.TEST)
EXAMPLE: Final = {"name": "chat", "url": "https://example.org/hook", "types": ["bid.admitted", "bid.failed"]}


class WebhookIn(Schema):
    name = Text(LONGEST_NAME, line=True, help_text="Name by which you know it.")
    url = Text(LONGEST_URL, help_text="Address to which messages are sent: https, public, without user or fragment.")
    cluster = VisibleCluster(
        60, required=False, allow_null=True, help_text="The only cluster whose events are sent; else all."
    )
    of_team = Flag(required=False, default=False, help_text="Whether events of your team's bids are sent, too.")
    types = Rows(
        Choice(messages.TYPES), most=len(messages.TYPES), required=False, help_text="Types that are sent; else all."
    )

    def validate_url(self, url: str) -> str:
        """Return an address to which messages may be sent."""
        try:
            return checked_url(url)
        except InvalidField as error:
            raise ValidationError(error.problem) from None


class ChangedWebhookIn(WebhookIn):
    is_on = Flag(required=False, default=True, help_text="Whether messages are sent.")


class RotateWebhookIn(Schema):
    overlap_s = Integer(
        0,
        LONGEST_OVERLAP_S,
        required=False,
        default=0,
        help_text="Seconds for which messages are signed with the old secret, too.",
    )


class WebhookOut(Answer):
    id = serializers.IntegerField(source="pk", help_text="Number of the webhook.")
    name = serializers.CharField(help_text="Name by which its user knows it.")
    url = serializers.CharField(help_text="Address to which messages are sent.")
    cluster = serializers.CharField(
        source="cluster.name", allow_null=True, help_text="The only cluster whose events are sent; null for all."
    )
    of_team = serializers.BooleanField(help_text="Whether events of the team's bids are sent, too.")
    types = serializers.ListField(
        child=serializers.ChoiceField([(one, one) for one in messages.TYPES]),
        help_text="Types of events that are sent; all if it is empty.",
    )
    is_on = serializers.BooleanField(help_text="Whether messages are sent.")
    off_reason = serializers.CharField(
        allow_blank=True, help_text="Why the service switched it off; empty if it did not."
    )
    created_at = Timestamp(help_text="Time of its creation, wall clock, ISO 8601.")
    failing_since = Timestamp(
        allow_null=True, help_text="Time of the first failure since the last success, wall clock, ISO 8601; or null."
    )


class MadeWebhookOut(WebhookOut):
    secret = serializers.CharField(help_text="The secret that signs its messages; it is shown this once.")


class WebhookPage(Page):
    results = WebhookOut(many=True, help_text="Your webhooks, newest first.")


class DeliveryOut(Answer):
    message = serializers.CharField(
        source="message_id", help_text="Id of the message, the same in all attempts; it names the delivery."
    )
    type = serializers.ChoiceField([(one, one) for one in ALL_TYPES], help_text="Type of the event.")
    cluster = serializers.CharField(
        source="market.cluster.name", allow_null=True, help_text="Cluster of the bid; null for a test."
    )
    bid = serializers.IntegerField(
        source="bid.sequence", allow_null=True, help_text="The bid's number in its market; null for a test."
    )
    status = serializers.ChoiceField(
        [(one.value, one.value) for one in DeliveryStatus], help_text="waiting, delivered or given_up."
    )
    attempts = serializers.IntegerField(help_text="Number of attempts.")
    created_at = Timestamp(help_text="Time at which it was written, wall clock, ISO 8601.")
    tried_at = Timestamp(
        allow_null=True, help_text="Time of the last attempt, wall clock, ISO 8601; null before the first."
    )
    next_at = Timestamp(
        allow_null=True, help_text="Time of the next attempt, wall clock, ISO 8601; null if there is none."
    )
    answer = serializers.IntegerField(allow_null=True, help_text="Status of the last answer; null if there was none.")
    problem = serializers.CharField(allow_blank=True, help_text="Why the last attempt failed; empty if it did not.")
    body = serializers.CharField(help_text="The text that is sent and signed.")


class DeliveryPage(Page):
    results = DeliveryOut(many=True, help_text="Deliveries, newest first.")


class Webhooks(ApiView):
    """List and create webhooks."""

    scope_of_changes = Scope.OPERATE

    @describe("List your webhooks", {200: WebhookPage}, READ, parameters=PAGES, operation_id="webhooks_list")
    def get(self, request: Request) -> Response:
        """Your webhooks, without their secrets."""
        return page_of(self, request, hooks.of_user(user_of(request)), WebhookPage)

    @describe(
        "Create a webhook",
        {201: MadeWebhookOut},
        WRITE,
        request=WebhookIn,
        reads=lambda request: WebhookIn.read(request.data, user=user_of(request)),
        parameters=[location("webhook", [201])],
        examples=examples({"Two types of events": EXAMPLE}),
        operation_id="webhooks_create",
    )
    def post(self, request: Request) -> Response:
        """Events of your bids from now on are sent to its address. 409 if you have 10 webhooks."""
        body = WebhookIn.read(request.data, user=user_of(request))
        return _made(hooks.create(user_of(request), _request(body)))


class OneWebhook(ApiView):
    """Read, change and delete one webhook."""

    scope_of_changes = Scope.OPERATE

    @describe("Read a webhook", {200: WebhookOut}, READ, operation_id="webhooks_read")
    def get(self, request: Request, webhook: int) -> Response:
        """One of your webhooks, without its secret."""
        return Response(WebhookOut.write(_found(request, webhook)))

    @describe(
        "Change a webhook",
        {200: WebhookOut},
        WRITE,
        request=ChangedWebhookIn,
        reads=lambda request, webhook: _read_change(request, webhook),
        examples=examples({"Switched off": {**EXAMPLE, "is_on": False}}),
        operation_id="webhooks_change",
    )
    def put(self, request: Request, webhook: int) -> Response:
        """One that is switched on again, or has another address, goes on where it stopped, at once."""
        body = _read_change(request, webhook)
        changed = hooks.change(_found(request, webhook), _request(body), is_on=body["is_on"])
        return Response(WebhookOut.write(changed))

    @describe("Delete a webhook", {204: None}, WRITE, operation_id="webhooks_delete")
    def delete(self, request: Request, webhook: int) -> Response:
        """Its deliveries are deleted, too; nothing is sent from now on."""
        hooks.delete(_found(request, webhook))
        return Response(status=204)


class Rotate(ApiView):
    """Replace the secret of a webhook."""

    scope_of_changes = Scope.OPERATE

    @describe(
        "Replace a webhook's secret",
        {201: MadeWebhookOut},
        WRITE,
        request=RotateWebhookIn,
        parameters=[location("webhook", [201])],
        examples=examples({"While the receiver changes over": {"overlap_s": 3600}}),
        operation_id="webhooks_rotate",
    )
    def post(self, request: Request, webhook: int) -> Response:
        """For `overlap_s` seconds messages are signed with both secrets."""
        overlap_s = RotateWebhookIn.read(request.data)["overlap_s"]
        return _made(hooks.rotate(_found(request, webhook), overlap_s=overlap_s))


class Test(ApiView):
    """Send a test message."""

    scope_of_changes = Scope.OPERATE

    @describe("Send a test message", {202: DeliveryOut}, WRITE, operation_id="webhooks_test")
    def post(self, request: Request, webhook: int) -> Response:
        """A message of type `webhook.test`, after those that wait. 409 while another one waits."""
        no_body(request)
        return Response(DeliveryOut.write(messages.add_test(_found(request, webhook))), status=202)


class Deliveries(ApiView):
    """The messages of a webhook."""

    @describe(
        "List deliveries",
        {200: DeliveryPage},
        READ,
        parameters=[
            query("status", str, "Only deliveries of this status.", enum=DeliveryStatus.values),
            query("type", str, "Only deliveries of this type.", enum=list(ALL_TYPES)),
            *PAGES,
        ],
        operation_id="webhooks_deliveries",
    )
    def get(self, request: Request, webhook: int) -> Response:
        """Messages that wait, were delivered or were given up, newest first."""
        rows = hooks.deliveries(_found(request, webhook))
        given = request.query_params
        chosen = {name: given[name] for name in ("status", "type") if name in given}
        return page_of(self, request, rows.filter(**chosen), DeliveryPage)


class Redeliver(ApiView):
    """Send a message again."""

    scope_of_changes = Scope.OPERATE

    @describe("Send a message again", {202: DeliveryOut}, WRITE, operation_id="webhooks_redeliver")
    def post(self, request: Request, webhook: int, delivery: str) -> Response:
        """It has the same id, and is sent before those that wait. 409 if it waits to be sent anyway."""
        no_body(request)
        found = hooks.delivery(_found(request, webhook), delivery)
        if found is None:
            raise Http404(f"This webhook has no delivery {delivery[:60]}.")
        return Response(DeliveryOut.write(hooks.redeliver(found)), status=202)


def _request(body: dict[str, Any]) -> WebhookRequest:
    return WebhookRequest(body["name"], body["url"], body.get("cluster"), body["of_team"], tuple(body.get("types", ())))


def _read_change(request: Request, number: int) -> dict[str, Any]:
    """Return the body of a change; a webhook keeps its cluster also if that was closed to its user since."""
    user = user_of(request)
    kept = hooks.of_user(user).filter(pk=number).first()
    return ChangedWebhookIn.read(request.data, user=user, kept=kept and kept.cluster)


def _made(made: hooks.Made) -> Response:
    document: dict[str, Any] = {**WebhookOut.write(made.webhook), "secret": made.secret}
    response = submitted(document, status=201, location=reverse("api-webhook", args=[made.webhook.pk]))
    response["Cache-Control"] = "no-store"
    return response


def _found(request: Request, number: int) -> Webhook:
    return one_of(hooks.of_user(user_of(request)), f"You have no webhook {number}.", pk=number)
