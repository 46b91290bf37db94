"""Secrets of webhooks were computed from the secret key and a salt; now they are stored, encrypted under that key.

They stay the same, provided that the secret key has not been changed since.
"""

from base64 import urlsafe_b64encode

from cryptography.fernet import Fernet
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q
from django.utils.crypto import salted_hmac


def encrypt(apps, schema_editor):
    key = salted_hmac("shadowprice.webhook.encryption", "", secret=settings.SECRET_KEY, algorithm="sha256").digest()
    fernet = Fernet(urlsafe_b64encode(key))

    def stored(salt):
        computed = salted_hmac("shadowprice.webhook", salt, algorithm="sha256").digest()
        return fernet.encrypt(computed).decode()

    for webhook in apps.get_model("auctions", "Webhook").objects.all():
        webhook.secret = stored(webhook.secret)
        webhook.old_secret = webhook.old_secret and stored(webhook.old_secret)
        webhook.save(update_fields=["secret", "old_secret"])


class Migration(migrations.Migration):

    dependencies = [("auctions", "0009_bid_trace_context")]

    operations = [
        migrations.RemoveConstraint("webhook", "webhook_old_secret_has_end"),
        migrations.RenameField("webhook", "salt", "secret"),
        migrations.RenameField("webhook", "old_salt", "old_secret"),
        migrations.AlterField("webhook", "secret", models.CharField(editable=False, max_length=200)),
        migrations.AlterField("webhook", "old_secret", models.CharField(blank=True, editable=False, max_length=200)),
        migrations.RunPython(encrypt, migrations.RunPython.noop, elidable=False),
        migrations.AddConstraint(
            "webhook",
            models.CheckConstraint(
                condition=Q(old_secret="", old_until=None) | (~Q(old_secret="") & Q(old_until__isnull=False)),
                name="webhook_old_secret_has_end",
            ),
        ),
    ]
