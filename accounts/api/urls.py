"""URL paths of accounts, under /api/v1."""

from django.urls import URLPattern, path

from accounts.api import tokens

urlpatterns: list[URLPattern] = [
    path("tokens", tokens.Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:token>", tokens.OneToken.as_view(), name="api-token-of-user"),
    path("tokens/<int:token>/rotate", tokens.RotateToken.as_view(), name="api-token-rotate"),
]
