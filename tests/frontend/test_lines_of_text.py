"""Names, notes and reasons that pages store are one line without control characters, as REST takes them."""

from html import unescape

import pytest
from django.test import Client

from accounts import teams
from accounts.models import Token
from auctions.engine import budgets
from auctions.models import BudgetKind, CreditTransaction, Market, Outage, Webhook


@pytest.mark.parametrize("text", ["a\nb", "a\u202eb", "a\x07b"])
@pytest.mark.parametrize(
    ("path", "name", "more"),
    [
        ("/account/tokens/", "name", {"scope": "bid"}),
        ("/account/webhooks/", "name", {"url": "https://example.org/hook"}),
        ("/teams/vision/credits/grant/", "grant-note", {"grant-credits": "5"}),
        ("/markets/lab/servers/edge-0/lost/", "reason", {}),
        ("/markets/lab/servers/edge-0/drain/", "reason", {}),
    ],
)
def test_a_text_of_several_lines_or_with_control_characters_is_refused(
    market: Market, as_operator: Client, path: str, name: str, more: dict[str, str], text: str
) -> None:
    budgets.set_budget(teams.create_team("vision", "Vision"), period=BudgetKind.MONTH, amount=0)
    answer = as_operator.post(path, {**more, name: text}, follow=True)
    assert f"expected one line without control characters, got {text!r}" in unescape(answer.content.decode())
    stored = CreditTransaction.objects.exclude(note="")
    assert not any(rows.exists() for rows in (Token.objects, Webhook.objects, Outage.objects, stored))
