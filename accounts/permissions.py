"""The permission of all REST operations: a user, and a token whose scope and cluster allow the operation."""

from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS, IsAuthenticated
from rest_framework.request import Request

from accounts.models import Scope, Token
from accounts.rights import rights_of
from cluster.models import Cluster


class WithinToken(IsAuthenticated):
    """Lets users in; with a token, as far as its scope and its cluster reach.

    A view may state the scope that its changes need as `scope_of_changes`; it is `Scope.BID` otherwise. Rights of
    operators follow from `accounts.authentication`.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether there is a user. Raises PermissionDenied if the token does not reach so far."""
        if not super().has_permission(request, view):
            return False
        cluster = view.kwargs.get("cluster")
        if cluster is not None and not _submits(request, view) and not _exists_for(request.user, cluster):
            raise Http404(f"There is no cluster {cluster[:60]}.")
        token = request.auth
        if isinstance(token, Token):
            check_scope(token, Scope.READ if request.method in SAFE_METHODS else scope_of_changes(view))
            _check_cluster(token, view)
        return True


def _exists_for(user: User | AnonymousUser, cluster: str) -> bool:
    """Return whether a cluster exists for the user.

    If another one is hidden from the user, a name that no cluster has is refused here, too: a later refusal in other
    words would show which of the two it is.
    """
    closed = rights_of(user).closed
    return not closed or (cluster not in closed and Cluster.objects.filter(name=cluster).exists())


def _submits(request: Request, view: Any) -> bool:
    """Return whether a submission looks itself whether the cluster exists for the user; it must take few queries."""
    return request.method == "POST" and getattr(view, "submits", False)


def scope_of_changes(view: Any) -> Scope:
    """Return the scope that a change through this view needs."""
    return getattr(view, "scope_of_changes", Scope.BID)


def check_scope(token: Token, needed: Scope) -> None:
    """Raise PermissionDenied unless the token's scope includes `needed`."""
    if Scope.values.index(token.scope) < Scope.values.index(needed):
        raise PermissionDenied(f"This token is for scope {token.scope}; this needs scope {needed}.")


def _check_cluster(token: Token, view: Any) -> None:
    if token.cluster is None or getattr(view, "of_any_token", False):
        return
    if view.kwargs.get("cluster") != token.cluster.name:
        raise PermissionDenied(f"This token is for cluster {token.cluster.name} only.")
