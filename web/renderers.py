"""Renderers of answers."""

from rest_framework.renderers import JSONRenderer


class CsvRenderer(JSONRenderer):
    """Lets a client accept CSV; it renders only errors, which stay JSON."""

    media_type = "text/csv"
    format = "csv"
