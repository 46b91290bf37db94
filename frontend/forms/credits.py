"""The forms of a team's credits: the budget, and a grant."""

from django import forms

from auctions.domain.credits import MOST_CREDITS
from auctions.models import BudgetKind
from frontend.forms.base import LineField, PageForm


class BudgetForm(PageForm):
    """The limit of a team."""

    prefix = "budget"
    period = forms.ChoiceField(choices=BudgetKind.choices, initial=BudgetKind.MONTH)
    credits = forms.FloatField(
        min_value=0, max_value=MOST_CREDITS, label="Credits a period", help_text="Granted when a period begins."
    )


class GrantForm(PageForm):
    """A grant to a team."""

    prefix = "grant"
    credits = forms.FloatField(
        min_value=-MOST_CREDITS,
        max_value=MOST_CREDITS,
        help_text="For the period under way; below 0 to take credits back.",
    )
    note = LineField(max_length=200, required=False, help_text="What it is for; the team reads it.")
