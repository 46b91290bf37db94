"""The forms of a team: an invitation, a role, and the account of a user who was invited."""

from django import forms
from django.conf import settings
from django.contrib.auth.forms import UserCreationForm

from accounts.invitations import LONGEST_DAYS
from accounts.models import Role
from frontend.forms.base import ChecksFirstPassword, DescribedField, PageForm


class InvitationForm(PageForm):
    """An invitation to a team."""

    role = forms.ChoiceField(choices=Role.choices, initial=Role.BIDDER)
    days = forms.IntegerField(min_value=1, max_value=LONGEST_DAYS, initial=7, label="Days until it expires")
    email = forms.EmailField(required=False, help_text="The link is sent there, and shown to you, too.")

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        if not settings.EMAIL_HOST:
            del self.fields["email"]


class RoleForm(PageForm):
    """Another role of a member."""

    role = forms.ChoiceField(choices=Role.choices)


class AccountForm(ChecksFirstPassword, UserCreationForm):  # type: ignore[type-arg]
    """The account of a user who was invited, whose name differs from others not only in capital letters."""

    bound_field_class = DescribedField
