"""Who is an operator: one rule for REST, pages, studies and the admin."""

from typing import Final

from django.contrib.auth.models import AnonymousUser, Group, Permission, PermissionsMixin

OPERATORS: Final = "operators"
APPS: Final = ("cluster", "auctions", "studies", "axes")
OPERATE: Final = "cluster.change_cluster"
"""Whoever has this permission is an operator: members of the group, and superusers."""


def is_operator(user: PermissionsMixin | AnonymousUser) -> bool:
    """Whether the user may see and end everybody's work and enter the admin; Django's staff status does not matter."""
    return user.has_perm(OPERATE)


def ensure_operator_group() -> Group:
    """The group, with every permission on clusters, markets, studies and failed logins; run it after `migrate`."""
    group, _ = Group.objects.get_or_create(name=OPERATORS)
    group.permissions.set(Permission.objects.filter(content_type__app_label__in=APPS))
    return group
