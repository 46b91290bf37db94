"""The rule that decides who is an operator, for REST, pages, studies and the admin."""

from typing import Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db.models import Q, QuerySet

from cluster.database.prepared import Prepared

OPERATORS: Final = "operators"
APPS: Final = ("cluster", "accounts", "auctions", "execution", "studies", "axes")
OPERATE: Final = ("cluster", "change_cluster")
"""Users with this permission are operators: members of the group, and superusers."""


def is_operator(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the user may see and end all users' work and enter the admin, whatever Django's staff status.

    The answer is that of `user.has_perm`, in one query instead of two; like it, the object of a user remembers the
    answer, and so it holds for one request.
    """
    known: bool | None = getattr(user, "_is_operator", None)
    if not user.is_active or known is False:
        return False
    if getattr(user, "is_superuser", False):
        return True
    if known is None:
        known = bool(_HELD(user.pk))
        user._is_operator = known  # type: ignore[attr-defined]
    return known


def let_operate_nothing(user: AbstractBaseUser) -> None:
    """Let this object of a user be no operator, whatever the user is: for a request with a token of a smaller scope."""
    user._operates_nothing = True  # type: ignore[attr-defined]
    user._is_operator = False  # type: ignore[attr-defined]


def held_permissions(user: int) -> QuerySet[Permission]:
    """Return the permission by which the user of this key is an operator, own or by a group."""
    app, codename = OPERATE
    held = Permission.objects.filter(content_type__app_label=app, codename=codename)
    return held.filter(Q(user=user) | Q(group__user=user))


_HELD = Prepared(lambda user: held_permissions(user).order_by().values_list("pk")[:1], int)


def operators() -> QuerySet[User]:
    """Return the operators, as `is_operator` says of one user."""
    app, codename = OPERATE
    held = Permission.objects.filter(content_type__app_label=app, codename=codename)
    found = Q(is_superuser=True) | Q(user_permissions__in=held) | Q(groups__permissions__in=held)
    return User.objects.filter(found, is_active=True)


def remember(user: AbstractBaseUser | AnonymousUser, *, is_operator: bool) -> None:
    """Let the object of a user know the answer of `is_operator`, which another query has brought."""
    user._is_operator = is_operator  # type: ignore[union-attr]


def operates_nothing(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether `let_operate_nothing` was called for this object of a user."""
    return getattr(user, "_operates_nothing", False)


def ensure_operator_group() -> Group:
    """The group, with every permission on clusters, markets, studies and failed logins; run it after `migrate`."""
    group, _ = Group.objects.get_or_create(name=OPERATORS)
    group.permissions.set(Permission.objects.filter(content_type__app_label__in=APPS))
    return group
