"""A changed password ends tokens, wherever it is changed: on a page, in the admin or by a command."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import MinimumLengthValidator

from accounts.tokens import end_by_password


class LongEnough(MinimumLengthValidator):
    """Refuses short passwords; Django calls `password_changed` once another password is stored."""

    def password_changed(self, _password: str, user: AbstractBaseUser | None = None) -> None:
        """End the tokens that were issued for the former password: who knew it could have asked for them."""
        if isinstance(user, User):
            end_by_password(user)
