from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("auctions", "0018_fewer_indexes")]

    operations = [
        migrations.AddField(
            model_name="market",
            name="standing_rule",
            field=models.JSONField(
                editable=False, help_text="Rule of standing bids that an event stated last; null if none is known.", null=True
            ),
        ),
    ]
