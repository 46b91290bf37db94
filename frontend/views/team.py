"""The viewer's team: members, roles, invitations, and the page on which an invitation is accepted."""

from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts import invitations, teams
from accounts.errors import AccountsError, InvitationOver, NotPossible
from accounts.models import Invitation, Membership, Role, Team
from accounts.rights import membership_of
from frontend.access import action_view, form_view, viewer_of
from frontend.forms.team import AccountForm, InvitationForm, RoleForm
from frontend.views.responses import say_done, say_refused, too_often
from web.throttles import InvitedMailboxThrottle, InviterThrottle

TOO_MANY_MAILS: Final = (
    "The service sends the same mailbox three invitations an hour at most, and 100 a day for one user: leave the"
    " address empty, and send the link yourself."
)


@never_cache
@form_view
def team_page(request: HttpRequest) -> HttpResponse:
    """Show the viewer's team; for its administrators the form that invites users, and open invitations."""
    membership = membership_of(viewer_of(request))
    if membership is None:
        return render(request, "frontend/no_team.html")
    team, may = membership.team, teams.may_administer(viewer_of(request), membership.team)
    form = InvitationForm(request.POST if request.method == "POST" else None)
    if form.is_bound and not may:
        raise PermissionDenied
    made = form.store(lambda: _invite(request, team, form))
    if made is not None:
        return redirect("team")
    members = list(team.memberships.select_related("user"))
    administrators = list(teams.acting_administrators(team).values_list("pk", flat=True)[:2])
    context = {
        "team": team,
        "own": membership,
        "may_administer": may,
        "members": members,
        "last": administrators[0] if len(administrators) == 1 else None,
        "roles": Role.choices,
        "form": form,
        "open": [(one, _link(request, one)) for one in invitations.open_invitations(team)] if may else [],
    }
    return render(request, "frontend/team.html", context, status=422 if form.is_bound else 200)


@action_view
def change_role(request: HttpRequest, number: int) -> HttpResponse:
    """Give a member another role."""
    team, member = _administered(request, number)
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Http404
    role = Role(form.cleaned_data["role"])

    def act() -> str:
        teams.change_role(team, member, role)
        return f"{member.user.get_username()} is now {role.label.lower()}."

    return _done(request, act)


@action_view
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Remove a member; each may remove the own membership."""
    own = membership_of(viewer_of(request))
    team, member = (own.team, own) if own is not None and own.pk == number else _administered(request, number)

    def act() -> str:
        teams.remove_member(team, member)
        return f"{member.user.get_username()} is no member any more."

    return _done(request, act)


@action_view
def withdraw(request: HttpRequest, number: int) -> HttpResponse:
    """Withdraw an invitation."""
    own = membership_of(viewer_of(request))
    if own is None or not teams.may_administer(viewer_of(request), own.team):
        raise Http404
    invitation = get_object_or_404(invitations.open_invitations(own.team), pk=number)

    def act() -> str:
        invitations.withdraw(invitation)
        return "The invitation was withdrawn; its link is worth nothing."

    return _done(request, act)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def accept(request: HttpRequest, text: str) -> HttpResponse:
    """Show an invitation and accept it; who has no account makes one."""
    try:
        invitation = invitations.found(text)
    except InvitationOver as error:
        return render(request, "frontend/invitation.html", {"over": str(error)}, status=404)
    if request.user.is_authenticated:
        return _accept_signed_in(request, invitation, text)
    if not settings.PASSWORD_LOGINS:
        return redirect_to_login(request.path)
    form = AccountForm(request.POST if request.method == "POST" else None)
    if form.is_bound:
        refusal = too_often(request, "accounts")
        if refusal is not None:
            return refusal
        answer = _make_account(request, form, text) if form.is_valid() else None
        if answer is not None:
            return answer
    context = {"invitation": invitation, "form": form}
    return render(request, "frontend/invitation.html", context, status=422 if form.is_bound else 200)


def _make_account(request: HttpRequest, form: AccountForm, text: str) -> HttpResponse | None:
    """Make an account that accepts the invitation; None if another request has just taken its name."""
    user = form.save(commit=False)  # the password is hashed before the transaction, which holds a lock
    try:
        with transaction.atomic():
            user.save()
            invitations.accept(text, user)
    except AccountsError as error:
        return render(request, "frontend/invitation.html", {"over": str(error)}, status=409)
    except IntegrityError:
        form.add_error("username", user.unique_error_message(User, ["username"]))
        return None
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("team")


def _accept_signed_in(request: HttpRequest, invitation: Invitation, text: str) -> HttpResponse:
    if request.method != "POST":
        context = {"invitation": invitation, "own": membership_of(viewer_of(request))}
        return render(request, "frontend/invitation.html", context)
    try:
        team = invitations.accept(text, viewer_of(request))
    except AccountsError as error:
        say_refused(request, error)
        return redirect("team")
    return _done(request, lambda: f"You are a member of {team}.")


def _invite(request: HttpRequest, team: Team, form: InvitationForm) -> Invitation:
    given = form.cleaned_data
    email = given.get("email", "")
    if email and not _may_mail(request):
        raise NotPossible(TOO_MANY_MAILS)
    made = invitations.invite(team, Role(given["role"]), days=given["days"], by=viewer_of(request), email=email)
    if made.email and not invitations.send(made, _link(request, made)):
        messages.error(request, f"The e-mail server did not take the e-mail to {made.email}: send the link yourself.")
    return made


def _may_mail(request: HttpRequest) -> bool:
    """Return whether one more invitation may be sent by e-mail, and count it.

    Open invitations have a limit, but who withdraws each one could have any number of e-mails sent.
    """
    limits = InvitedMailboxThrottle(), InviterThrottle()
    return all(one.allow_request(request, None) for one in limits)  # type: ignore[arg-type]  # reads Django's the same


def _link(request: HttpRequest, invitation: Invitation) -> str:
    return request.build_absolute_uri(reverse("invitation", args=[invitation.link_text]))


def _administered(request: HttpRequest, number: int) -> tuple[Team, Membership]:
    """Return a membership of the viewer's team and the team; 404 unless the viewer administers it."""
    own = membership_of(viewer_of(request))
    if own is None or not teams.may_administer(viewer_of(request), own.team):
        raise Http404
    return own.team, get_object_or_404(own.team.memberships.select_related("user"), pk=number)


def _done(request: HttpRequest, act: Callable[[], str]) -> HttpResponse:
    say_done(request, act)
    return redirect("team")
