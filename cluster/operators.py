"""Who runs clusters: a group with every permission on the physical facts and on the market's pages in the admin."""

from typing import Final

from django.contrib.auth.models import Group, Permission

OPERATORS: Final = "operators"
ROOMS: Final = ("cluster", "auctions")


def ensure_operator_group() -> Group:
    """The group `operators`, made if need be; members must also be staff to enter the admin."""
    group, _ = Group.objects.get_or_create(name=OPERATORS)
    group.permissions.set(Permission.objects.filter(content_type__app_label__in=ROOMS))
    return group
