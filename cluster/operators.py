"""Who may configure: the group whose members, if staff, run the admin."""

from typing import Final

from django.contrib.auth.models import Group, Permission

OPERATORS: Final = "operators"
APPS: Final = ("cluster", "auctions", "studies")


def ensure_operator_group() -> Group:
    """The group, with every permission on clusters, markets and studies; run it after `migrate`."""
    group, _ = Group.objects.get_or_create(name=OPERATORS)
    group.permissions.set(Permission.objects.filter(content_type__app_label__in=APPS))
    return group
