"""The settings of processes that tests start: those of the project, and passwords that are hashed at once.

A hash takes half a second of a core otherwise, and each process of a test makes or checks several. Processes in which
the time of a guess matters have `config.settings`.
"""

import os

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from config.settings import *  # noqa: F403


class AtOnce(PBKDF2PasswordHasher):
    """A thousandth of a second."""

    iterations = 1


PASSWORD_HASHERS = ["tests.settings.AtOnce"]

if "SHADOWPRICE_VAR" not in os.environ:
    METRICS_DIR = None  # type: ignore[assignment]  # the process of pytest: what tests count is forgotten with it
