"""Rate limits for one caller: each process counts on its own; the rates are in the settings."""

from hashlib import sha256
from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle, UserRateThrottle

from cluster.addresses import address_of


class CallerThrottle(UserRateThrottle):
    """A limit per user, or per address for callers who are not signed in."""

    scope = "caller"

    def get_ident(self, request: Request) -> str:
        """The address."""
        return str(address_of(request))


class PasswordThrottle(SimpleRateThrottle):
    """A limit on password checks per address, correct ones included: each takes a third of a processor second."""

    scope = "password"

    def get_cache_key(self, request: Request | HttpRequest, view: Any) -> str:
        """Return the address, for every user."""
        return self.cache_format % {"scope": self.scope, "ident": address_of(request)}


class MailboxThrottle(SimpleRateThrottle):
    """A limit on links to reset a password that one mailbox is sent."""

    scope = "mailbox"
    rate = "3/hour"

    def get_cache_key(self, request: Request | HttpRequest, view: Any) -> str:
        """Return the address of the mailbox, in any case; only its digest is kept."""
        mailbox = request.POST.get("email", "").strip().casefold()
        return self.cache_format % {"scope": self.scope, "ident": sha256(mailbox.encode()).hexdigest()}


class InvitedMailboxThrottle(MailboxThrottle):
    """A limit on invitations that one mailbox is sent; they keep no link to reset a password from it."""

    scope = "invited_mailbox"


class InviterThrottle(SimpleRateThrottle):
    """A limit on invitations that one user lets the service send: there are as many mailboxes as one likes."""

    scope = "inviter"
    rate = "100/day"

    def get_cache_key(self, request: Request | HttpRequest, view: Any) -> str:
        """Return the user, who is signed in."""
        return self.cache_format % {"scope": self.scope, "ident": request.user.pk}


class MadeUpTokenThrottle(SimpleRateThrottle):
    """A limit on tokens of an address that nobody has: `count` is called for these alone."""

    scope = "made_up_token"

    def get_cache_key(self, request: Request | HttpRequest, view: Any) -> str:
        """Return the address."""
        return self.cache_format % {"scope": self.scope, "ident": address_of(request)}

    def lets(self, request: Request) -> bool:
        """Return whether another token of this address may be looked for."""
        whatever: Any = None  # the limit is the same for all operations
        return self.allow_request(request, whatever)

    def throttle_success(self) -> bool:
        """Let the token be looked for; nothing is counted yet."""
        return True

    def count(self) -> None:
        """Count the token that `lets` has let pass."""
        super().throttle_success()
