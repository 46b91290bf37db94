"""Paths of the REST interface, under /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
