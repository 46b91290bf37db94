"""Single sign-on by OpenID Connect: who the provider says has logged in, and which account that is.

An account is found by issuer and subject, which never change and are never given to another person. The first login
finds it by its e-mail address, or makes one, if the settings allow that. A user who is logged in may link an account
with a person, and end that.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from requests import RequestException

from accounts.errors import LoginRefused, NotPossible, ProviderAway
from accounts.models import Identity
from cluster import clock

TIME_LIMIT_S: Final = 10.0
"""Time for an answer of the provider."""
LEEWAY_S: Final = 60
"""Difference of the clocks of provider and service that is no fault."""
LONGEST_NAME: Final = 150
LONGEST_SUBJECT: Final = 255
"""Characters of a subject at most, by OpenID Connect."""
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by keys of which the provider alone has the private half."""
ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
"""Addresses that the document of a provider must have."""
_STRANGE: Final = re.compile(r"[^\w.@+-]")
"""Characters that no user name has."""
_CODE: Final = re.compile("[a-z_]{1,40}")
"""Form of the codes of errors in OAuth, such as access_denied."""
NO_ACCOUNT: Final = "There is no account for you here yet; ask an operator."


def is_on() -> bool:
    """Return whether a provider is configured."""
    return bool(settings.OIDC_ISSUER)


def begin(request: HttpRequest, redirect_uri: str) -> HttpResponse:
    """Send the browser to the provider; state, nonce and the secret of PKCE are kept in its session.

    Raises
    ------
    ProviderAway
        If the provider does not answer, or not as one.
    """
    try:
        answer: HttpResponse = _checked_provider().authorize_redirect(request, redirect_uri)
    except (RequestException, RuntimeError, ValueError) as error:
        raise _away(error) from error
    return answer


def claims_of(request: HttpRequest) -> Mapping[str, Any]:
    """Return what the provider says of the person who comes back from it.

    The ID token must be signed by the provider, for this service, for this session (state and nonce), and in force.

    Raises
    ------
    LoginRefused
        If it is not, or if the person did not log in.
    ProviderAway
        If the provider does not answer, or not as one.
    """
    from authlib.integrations.base_client import OAuthError  # noqa: PLC0415
    from joserfc.errors import JoseError  # noqa: PLC0415

    try:
        provider = _checked_provider()
        expected = {
            # As its document writes it: some end it with a slash, which the setting has not.
            "iss": {"essential": True, "value": provider.load_server_metadata()["issuer"]},
            "aud": {"essential": True, "value": settings.OIDC_CLIENT_ID},
        }
        token = provider.authorize_access_token(request, claims_options=expected, leeway=LEEWAY_S)
    except (OAuthError, JoseError) as error:
        raise LoginRefused(f"The login was refused: {_words(error)}.") from error
    except (RequestException, RuntimeError, ValueError, KeyError) as error:
        raise _away(error) from error
    claims: Mapping[str, Any] | None = token.get("userinfo")
    if not claims or not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise LoginRefused("The login was refused: there is no ID token.")
    if len(claims["sub"]) > LONGEST_SUBJECT or not claims["sub"].isprintable():
        raise LoginRefused("The login was refused: invalid claim sub.")
    return claims


def account_of(claims: Mapping[str, Any]) -> User:
    """Return the account of a person; the first login links one, or makes one, as the settings allow.

    Raises
    ------
    LoginRefused
        If there is no account for the person, or if it is closed.
    """
    with transaction.atomic():
        user = _linked(claims) or _by_email(claims) or _new(claims)
        if not user.is_active:
            raise LoginRefused("This account is closed.")
    return user


def identity_of(user: User) -> Identity | None:
    """Return the link of an account with a person at the provider; None without one."""
    return Identity.objects.filter(user=user, issuer=settings.OIDC_ISSUER).first()


def link(user: User, claims: Mapping[str, Any]) -> None:
    """Link an account with the person who has just logged in at the provider; nothing happens if it is linked so.

    Raises
    ------
    NotPossible
        If the person is linked with another account, or the account with another person.
    """
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        found = _linked(claims)
        if found is not None and found.pk == user.pk:
            return
        if found is not None:
            raise NotPossible("This person is linked with another account here; end that link first.")
        if identity_of(user) is not None:
            raise NotPossible("This account is linked with another person; end that link first.")
        _link(user, claims)


def unlink(user: User) -> None:
    """End the link of an account.

    Raises
    ------
    NotPossible
        If the user could not log in without it.
    """
    if not (settings.PASSWORD_LOGINS and user.has_usable_password()):
        raise NotPossible("You have no password, so you could not log in without this link.")
    Identity.objects.filter(user=user, issuer=settings.OIDC_ISSUER).delete()


def _linked(claims: Mapping[str, Any]) -> User | None:
    found = Identity.objects.filter(issuer=settings.OIDC_ISSUER, subject=claims["sub"]).select_related("user").first()
    return None if found is None else found.user


def _by_email(claims: Mapping[str, Any]) -> User | None:
    """Link the one account that has the person's verified e-mail address, and was not linked yet."""
    email = _verified_email(claims)
    if not settings.OIDC_MATCH_EMAIL or not email:
        return None
    found = User.objects.filter(email__iexact=email, identities=None)
    users = [user for user in found if _folded(user.email) == _folded(email)]
    if len(users) != 1:
        return None
    return _link(users[0], claims)


def _verified_email(claims: Mapping[str, Any]) -> str:
    """Return the person's address if the provider has verified it and an account can have it; empty otherwise."""
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return ""
    try:
        User._meta.get_field("email").run_validators(email)
    except ValidationError:
        return ""
    return email


def _folded(email: str) -> str:
    """Return an address without regard to case. PostgreSQL takes more letters for the same, such as ı for i."""
    return unicodedata.normalize("NFKC", email).casefold()


def _new(claims: Mapping[str, Any]) -> User:
    """Make an account, whose name is that of the person at the provider unless it is taken."""
    if not settings.OIDC_NEW_ACCOUNTS:
        raise LoginRefused(NO_ACCOUNT)
    wanted = next((str(claims[key]) for key in ("preferred_username", "email", "sub") if claims.get(key)), "user")
    stem = _STRANGE.sub("-", User.normalize_username(wanted))[: LONGEST_NAME - 10]
    taken = set(User.objects.filter(username__istartswith=stem).values_list("username", flat=True))
    known = {name.lower() for name in taken}
    name = next(one for one in (stem, *(f"{stem}-{i}" for i in range(2, len(known) + 3))) if one.lower() not in known)
    try:
        with transaction.atomic():
            # Without a password that anybody could give.
            user = User.objects.create_user(name, email=_verified_email(claims))
    except IntegrityError:
        raise LoginRefused("Another account took this name just now; try again.") from None
    return _link(user, claims)


def _link(user: User, claims: Mapping[str, Any]) -> User:
    try:
        with transaction.atomic():
            Identity.objects.create(
                user=user, issuer=settings.OIDC_ISSUER, subject=claims["sub"], created_at=clock.now()
            )
    except IntegrityError:
        raise LoginRefused("You logged in twice at the same time; try again.") from None
    return user


def _checked_provider() -> Any:
    """Return the client of the provider, whose own document names it as its tokens do.

    Raises
    ------
    ValueError
        If the document is wrong; the next login reads it again.
    """
    provider = _provider(settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET)
    try:
        _check_document(provider.load_server_metadata())
    except (TypeError, ValueError) as error:  # the library cannot keep JSON that is no object
        _provider.cache_clear()
        raise ValueError(f"wrong document of the provider: {error}") from error
    return provider


def _check_document(document: dict[str, Any]) -> None:
    """Check what the provider says of itself, and leave of its signatures those of `ALGORITHMS`."""
    if str(document.get("issuer", "")).rstrip("/") != settings.OIDC_ISSUER:
        raise ValueError("another issuer")
    for name in ENDPOINTS:
        if not str(document.get(name, "")).startswith(("https://", "http://")):
            raise ValueError(f"no {name}")
    offered = document.get("id_token_signing_alg_values_supported") or ["RS256"]
    document["id_token_signing_alg_values_supported"] = [name for name in offered if name in ALGORITHMS]


@cache
def _provider(issuer: str, client: str, client_secret: str) -> Any:
    """Return the client of a provider; it keeps the provider's document and keys."""
    # Only services with a provider need the library, which takes a twentieth of the start of a process.
    from authlib.integrations.django_client import OAuth  # noqa: PLC0415

    oauth = OAuth()
    return oauth.register(
        "provider",
        client_id=client,
        client_secret=client_secret,
        server_metadata_url=f"{issuer}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email profile",
            "code_challenge_method": "S256",
            "default_timeout": TIME_LIMIT_S,
        },
    )


def _away(error: Exception) -> ProviderAway:
    return ProviderAway(
        f"The login service does not answer as it should ({type(error).__name__}). Try again in some minutes."
    )


def _words(error: Exception) -> str:
    """Return the kind of an error; texts of the provider are not shown, and anybody may put one in an address."""
    code = str(getattr(error, "error", ""))
    return (code if _CODE.fullmatch(code) else type(error).__name__).replace("_", " ")
