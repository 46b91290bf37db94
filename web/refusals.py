"""Errors that refuse a body. This module does not import the REST framework's views, which import the parsers."""

from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError


class BodyTooLarge(APIException):
    """A body beyond settings.BODY_LIMIT_BYTES."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = "The body is too large."


def refuse(field: str, message: str) -> ValidationError:
    """The error of one field, to be raised."""
    return ValidationError({field: [message]})
