"""A token is that of an active user, and costs one query."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient


@pytest.fixture
def client(alice: User) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=alice).key}")
    return client


def test_a_token_is_asked_for_once_with_its_user(client: APIClient) -> None:
    client.get("/api/v1/clusters")
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert client.get("/api/v1/clusters").status_code == 200
    assert sum("authtoken_token" in query["sql"] for query in asked) == 1
    assert not [query for query in asked if "auth_user" in query["sql"] and "authtoken" not in query["sql"]]


def test_a_user_who_is_not_active_is_refused(client: APIClient, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    answer = client.get("/api/v1/clusters")
    assert (answer.status_code, answer.json()["detail"]) == (401, "User inactive or deleted.")


@pytest.mark.parametrize("token", ["none", "%s", "\x7f", "a" * 10_000])
def test_a_token_that_nobody_has_is_refused(db: None, token: str) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    answer = client.get("/api/v1/clusters")
    assert (answer.status_code, answer.json()["detail"]) == (401, "Invalid token.")
