"""Errors that a service raises on purpose, wherever it does; the message may be shown.

This module does not import the REST framework's views, which import the parsers.
"""

from http import HTTPStatus

from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError


class ServiceError(Exception):
    """The request conflicts with the present state."""

    status = HTTPStatus.CONFLICT
    wait_s = 60
    """Seconds for Retry-After, where the status is 429: work may end by then."""


class BodyTooLarge(APIException):
    """A body beyond settings.BODY_LIMIT_BYTES."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = "The body is too large."


def refuse(field: str, message: str) -> ValidationError:
    """The error of one field, to be raised."""
    return ValidationError({field: [message]})
