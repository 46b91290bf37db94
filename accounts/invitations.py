"""Invitations: a signed link by which one person joins a team, once, until it expires or is withdrawn."""

import logging
from datetime import timedelta
from smtplib import SMTPException
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import QuerySet

from accounts.errors import InvitationOver, NotPossible
from accounts.models import INVITATION_SALT, Invitation, Role, Team
from accounts.teams import add_member, administrators_of, may_administer
from cluster import clock

log = logging.getLogger(__name__)

LONGEST_DAYS: Final = 30
MOST_OPEN: Final = 100
"""Largest number of open invitations of a team."""


def open_invitations(team: Team) -> QuerySet[Invitation]:
    """Return those that can be accepted, newest first."""
    rows = Invitation.objects.filter(team=team, created_by__in=administrators_of(team))
    return rows.filter(accepted_at=None, expires_at__gt=clock.now())


def invite(team: Team, role: Role, *, days: int, by: User, email: str = "") -> Invitation:
    """Store an invitation.

    Raises
    ------
    NotPossible
        If the team has `MOST_OPEN` open ones, or an e-mail is asked for and no server is configured.
    """
    if email and not settings.EMAIL_HOST:
        raise NotPossible("This service sends no e-mail; copy the link instead.")
    with transaction.atomic():
        Team.objects.select_for_update(no_key=True).filter(pk=team.pk).first()  # two requests at once count one by one
        if open_invitations(team).count() >= MOST_OPEN:
            raise NotPossible(f"{team} has {MOST_OPEN} open invitations; withdraw one first.")
        now = clock.now()
        return Invitation.objects.create(
            team=team, role=role, email=email, created_by=by, created_at=now, expires_at=now + timedelta(days=days)
        )


def found(text: str) -> Invitation:
    """Return the open invitation of a link.

    Raises
    ------
    InvitationOver
        If the link was not signed here, has expired, was accepted or withdrawn, or if its maker administers the team no
        longer, in whatever way that ended, or has a closed account.
    """
    try:
        key = int(signing.Signer(salt=INVITATION_SALT).unsign(text))
    except (signing.BadSignature, ValueError):
        raise InvitationOver("This is not the link of an invitation.") from None
    invitation = Invitation.objects.select_related("team", "created_by").filter(pk=key).first()
    maker = None if invitation is None else invitation.created_by
    if invitation is None or maker is None or not may_administer(maker, invitation.team):
        raise InvitationOver("This invitation was withdrawn.")
    if invitation.accepted_at is not None:
        raise InvitationOver("This invitation was accepted already.")
    if invitation.expires_at <= clock.now():
        raise InvitationOver("This invitation has expired.")
    return invitation


def accept(text: str, user: User) -> Team:
    """Let a user join the team of a link; raises InvitationOver, or NotPossible if the user is in a team."""
    with transaction.atomic():
        key = found(text).pk
        Invitation.objects.select_for_update(no_key=True, of=("self",)).filter(pk=key).first()
        invitation = found(text)  # nobody else accepts or withdraws it now
        add_member(invitation.team, user, Role(invitation.role))
        Invitation.objects.filter(pk=key).update(accepted_by=user, accepted_at=clock.now())
    return invitation.team


def withdraw(invitation: Invitation) -> None:
    """Delete an invitation: its link is worth nothing from now on."""
    invitation.delete()


def send(invitation: Invitation, link: str) -> bool:
    """Send the link to the address of the invitation; return whether the e-mail server has taken it."""
    until = f"{invitation.expires_at:%Y-%m-%d %H:%M} UTC"
    words = f"You are invited to join {invitation.team} as {invitation.role}. The link works once, until {until}:"
    try:
        send_mail(f"Join {invitation.team} on Shadowprice", f"{words}\n\n{link}\n", None, [invitation.email])
    except (OSError, SMTPException):
        log.exception("an invitation was not sent")
        return False
    return True
