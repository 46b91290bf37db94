from django.db import migrations, models
from django.db.models import F


def as_sent(apps, schema_editor):
    """Rows from before say only when they were sent."""
    apps.get_model("auctions", "QueuedChunks").objects.update(release=F("since"))


class Migration(migrations.Migration):
    dependencies = [
        ("auctions", "0006_quotients"),
    ]

    operations = [
        migrations.AddField(
            model_name="queuedchunks",
            name="release",
            field=models.BigIntegerField(
                default=0, help_text="Slot at which they are uploaded; delays may change after they were sent."
            ),
            preserve_default=False,
        ),
        migrations.RunPython(as_sent, migrations.RunPython.noop),
    ]
