"""The rule that decides who is an operator, for REST, pages, studies and the admin."""

from functools import cache
from typing import Any, Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import connection
from django.db.models import Q, QuerySet

OPERATORS: Final = "operators"
APPS: Final = ("cluster", "accounts", "auctions", "execution", "studies", "axes")
OPERATE: Final = ("cluster", "change_cluster")
"""Users with this permission are operators: members of the group, and superusers."""
ANYBODY: Final = -1
"""No user has this key."""


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
        sql, parameters = _query()
        with connection.cursor() as cursor:
            cursor.execute(sql, [user.pk if value == ANYBODY else value for value in parameters])
            known = cursor.fetchone() is not None
        user._is_operator = known  # type: ignore[attr-defined]
    return known


def let_operate_nothing(user: AbstractBaseUser) -> None:
    """Let this object of a user be no operator, whatever the user is: for a request with a token of a smaller scope."""
    user._operates_nothing = True  # type: ignore[attr-defined]
    user._is_operator = False  # type: ignore[attr-defined]


@cache
def _query() -> tuple[str, tuple[Any, ...]]:
    """The query for the permission of one user, own or by a group, as SQL; `ANYBODY` stands for the user's key.

    Every request asks. To build the SQL of five joins from the models takes twenty times as long as to run it.
    """
    return held_permissions().order_by().values("pk")[:1].query.sql_with_params()


def held_permissions() -> QuerySet[Permission]:
    """Return the permission by which the user with the key `ANYBODY` is an operator, own or by a group."""
    app, codename = OPERATE
    held = Permission.objects.filter(content_type__app_label=app, codename=codename)
    return held.filter(Q(user=ANYBODY) | Q(group__user=ANYBODY))


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
