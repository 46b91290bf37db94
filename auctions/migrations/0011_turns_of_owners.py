import django.db.models.deletion
from django.db import migrations, models


def begin_now(apps, schema_editor):
    """Decisions that are made already were made in the order of submission."""
    apps.get_model("auctions", "Market")._default_manager.update(turns_from=models.F("version"))


class Migration(migrations.Migration):

    dependencies = [
        ('auctions', '0010_stored_webhook_secrets'),
    ]

    operations = [
        migrations.CreateModel(
            name='OwnerTurn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.BigIntegerField(help_text='Key of the user, or minus the key of the team.')),
                ('version', models.PositiveBigIntegerField(help_text="Version of the event that was the owner's last turn.")),
                ('market', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='turns', to='auctions.market')),
            ],
        ),
        migrations.AddConstraint(
            model_name='ownerturn',
            constraint=models.UniqueConstraint(fields=('market', 'owner'), name='owner_turn_once'),
        ),
        migrations.AddField(
            model_name='market',
            name='turns_from',
            field=models.PositiveBigIntegerField(default=0, editable=False, help_text='Version after which owners take turns; before, bids were in order.'),
        ),
        migrations.RunPython(begin_now, migrations.RunPython.noop),
    ]
