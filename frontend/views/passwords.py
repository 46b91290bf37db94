"""Pages of passwords, by Django's own views: change one's own, and reset it by e-mail where a server is configured."""

from collections.abc import Sequence
from threading import Thread
from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.forms import PasswordChangeForm, PasswordResetForm, SetPasswordForm
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse_lazy

from auctions.readings.computation_limits import PASSWORDS
from cluster.addresses import address_of
from frontend.forms.base import ChecksFirstPassword, DescribedField
from frontend.views.responses import too_often
from web.throttles import MailboxThrottle

MAIL: Final = "mail"
"""Name of a thread that sends a link."""


class _Limited(views.PasswordContextMixin):
    """Limits requests that hash a password, or send an e-mail, as logins are."""

    http_method_names: Sequence[str] = ["get", "head", "post", "options"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer 404 if passwords are switched off."""
        if not settings.PASSWORD_LOGINS:
            raise Http404
        answer: HttpResponseBase = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        return answer

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer one of these requests of an address at a time, and a limited number a minute."""
        refusal = too_often(request, "requests")
        if refusal is not None:
            return refusal
        with PASSWORDS.turn(address_of(request)):
            answer: HttpResponse = super().post(request, *args, **kwargs)  # type: ignore[misc]
            return answer


class _ByEmail(_Limited):
    """Exists only where an e-mail server is configured."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer 404 without an e-mail server."""
        if not settings.EMAIL_HOST:
            raise Http404
        return super().dispatch(request, *args, **kwargs)


class _ChangeForm(ChecksFirstPassword, PasswordChangeForm):
    bound_field_class = DescribedField


class _ResetForm(PasswordResetForm):
    bound_field_class = DescribedField

    def send_mail(self, *arguments: Any, **options: Any) -> None:
        """Send the e-mail from a thread: else the time of the answer says whether there is an account."""
        Thread(target=super().send_mail, args=arguments, kwargs=options, name=MAIL).start()


class _SetForm(ChecksFirstPassword, SetPasswordForm):  # type: ignore[type-arg]
    bound_field_class = DescribedField


class ChangePassword(_Limited, views.PasswordChangeView):
    """Change one's own password."""

    form_class = _ChangeForm
    template_name = "frontend/password_change.html"
    success_url = reverse_lazy("tokens")

    def form_valid(self, form: Form) -> HttpResponse:
        """Say so on the next page."""
        messages.success(
            self.request, "Your password was changed. Tokens that were issued for it have ended; others go on working."
        )
        return super().form_valid(form)  # type: ignore[arg-type]


class ResetPassword(_ByEmail, views.PasswordResetView):
    """Send a link to the address of an account; the answer does not say whether there is one."""

    form_class = _ResetForm
    template_name = "frontend/password_reset.html"
    email_template_name = "frontend/password_reset_email.txt"
    subject_template_name = "frontend/password_reset_subject.txt"
    success_url = reverse_lazy("login")

    def form_valid(self, form: PasswordResetForm) -> HttpResponse:
        """Say so on the next page, also if the mailbox was sent too many: who asks learns nothing of it."""
        messages.success(self.request, "If there is an account with this address, a link was sent to it.")
        if not MailboxThrottle().allow_request(self.request, None):  # type: ignore[arg-type]  # reads Django's the same
            return HttpResponseRedirect(self.get_success_url())
        return super().form_valid(form)


class SetPassword(_ByEmail, views.PasswordResetConfirmView):
    """Set a password by the link of an e-mail."""

    form_class = _SetForm
    template_name = "frontend/password_set.html"
    success_url = reverse_lazy("login")

    def form_valid(self, form: Form) -> HttpResponse:
        """Say so on the next page."""
        messages.success(
            self.request, "Your password was changed, and tokens that were issued for it have ended; log in."
        )
        return super().form_valid(form)  # type: ignore[arg-type]
