"""Passwords are changed by their users, and reset by e-mail where a server is configured."""

import re
import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.mail import EmailMessage
from django.test import Client

from frontend.views.passwords import MAIL

NEW = "another horse battery"


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_user("bob", "bob@example.org", "correct horse")


def sent() -> None:
    """Wait until the e-mails that are under way have been sent."""
    for thread in threading.enumerate():
        if thread.name == MAIL:
            thread.join(60)


def test_a_password_is_changed_by_who_knows_it(bob: User) -> None:
    client = Client()
    client.force_login(bob)
    data = {"old_password": "a guess", "new_password1": NEW, "new_password2": NEW}
    assert "incorrectly" in client.post("/account/password/", data).text
    assert client.post("/account/password/", {**data, "old_password": "correct horse"}).status_code == 302
    bob.refresh_from_db()
    assert bob.check_password(NEW)
    assert client.get("/account/tokens/").status_code == 200, "still logged in"
    assert Client().get("/account/password/").status_code == 302


def test_without_a_server_no_page_resets_a_password(bob: User, mailoutbox: Any) -> None:
    client = Client()
    assert "Forgotten" not in client.get("/login/").text
    for path in ("/password/reset/", "/password/reset/MQ/token/"):
        assert client.get(path).status_code == 404
        assert client.post(path, {"email": "bob@example.org"}).status_code == 404
    assert not mailoutbox


def test_a_link_that_is_sent_sets_a_password_once(bob: User, mailoutbox: Any, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    client = Client()
    assert "Forgotten" in client.get("/login/").text
    pages = [client.post("/password/reset/", {"email": one}, follow=True).text for one in ("no@example.org", bob.email)]
    assert all("If there is an account" in page for page in pages)
    sent()
    assert len(mailoutbox) == 1
    link = re.search(r"http://testserver(/password/reset/\S+)", mailoutbox[0].body)
    assert link
    form = client.get(link[1], follow=True)
    client.post(form.redirect_chain[-1][0], {"new_password1": NEW, "new_password2": NEW})
    bob.refresh_from_db()
    assert bob.check_password(NEW)
    assert "used already" in Client().get(link[1]).text


def test_a_mailbox_is_sent_three_links_an_hour_and_nobody_learns_of_it(
    db: None, mailoutbox: Any, settings: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    for name in ("ann", "eve"):
        User.objects.create_user(name, f"{name}@example.org", "correct horse")
    client = Client()
    asked = ("ann@example.org", " ANN@example.org", "ann@EXAMPLE.org", "ann@example.org", "Ann@example.org")
    pages = [client.post("/password/reset/", {"email": one}, follow=True).text for one in asked]
    assert all("If there is an account" in page for page in pages)
    sent()
    assert len(mailoutbox) == 3
    client.post("/password/reset/", {"email": "eve@example.org"})
    sent()
    assert len(mailoutbox) == 4, "each mailbox has a limit of its own"


def test_the_time_of_an_answer_does_not_say_whether_there_is_an_account(
    bob: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    goes_on, mails = threading.Event(), list[str]()

    def send(mail: EmailMessage, fail_silently: bool = False) -> int:
        goes_on.wait(60)
        mails.extend(mail.to)
        return 1

    monkeypatch.setattr(EmailMessage, "send", send)
    assert Client().post("/password/reset/", {"email": bob.email}).status_code == 302
    assert mails == [], "the mail server has not answered yet"
    goes_on.set()
    sent()
    assert mails == [bob.email]
