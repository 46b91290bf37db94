from django.db import migrations, models


def begin_now(apps, schema_editor):
    """Prices of decisions that are made already have learned from pools in which each user was an owner."""
    apps.get_model("auctions", "Market")._default_manager.update(teams_pooled_from=models.F("version"))


class Migration(migrations.Migration):
    dependencies = [("auctions", "0019_rule_stated_by_the_market")]

    operations = [
        migrations.AddField(
            model_name="market",
            name="teams_pooled_from",
            field=models.PositiveBigIntegerField(
                default=0,
                editable=False,
                help_text="Version after which a team is one owner in pools of prices; before, each user was.",
            ),
        ),
        migrations.RunPython(begin_now, migrations.RunPython.noop),
    ]
