"""Errors with a status of HTTP that a service raises on purpose, wherever it does; the message may be shown."""

from http import HTTPStatus


class ServiceError(Exception):
    """The request conflicts with the present state."""

    status = HTTPStatus.CONFLICT
