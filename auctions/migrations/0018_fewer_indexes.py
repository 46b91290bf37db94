"""Indexes that no query needs are dropped; each in a transaction of its own, so that no lock is held for long.

PostgreSQL vacuums the table of bids after each twentieth, not each fifth: a decision leaves the row as it was before.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def vacuum_sooner(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE auctions_bid SET (autovacuum_vacuum_scale_factor = 0.05)")


def vacuum_as_others(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE auctions_bid RESET (autovacuum_vacuum_scale_factor)")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("auctions", "0017_smaller_indexes_of_bids"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        *(migrations.RemoveIndex("bid", name) for name in ("bid_by_state", "bid_by_turn", "bid_by_end", "bid_by_owner")),
        migrations.RunPython(vacuum_sooner, vacuum_as_others),
        *(
            migrations.AlterField(
                model,
                name,
                models.ForeignKey(
                    db_index=False,
                    null=name in ("team", "bid"),
                    on_delete=django.db.models.deletion.PROTECT,
                    related_name=related,
                    to=to,
                ),
            )
            for model, name, related, to in (
                ("bid", "owner", "bids", settings.AUTH_USER_MODEL),
                ("bid", "team", "bids", "accounts.team"),
                ("event", "bid", "events", "auctions.bid"),
                ("firstdecision", "policy", "first_decisions", "auctions.policyversion"),
                ("decisionrecord", "policy", "decisions", "auctions.policyversion"),
            )
        ),
    ]
