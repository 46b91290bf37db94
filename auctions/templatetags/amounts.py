"""The filter for money."""

from django import template

from web.numbers import money

register = template.Library()
register.filter(money)
