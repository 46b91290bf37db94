"""Columns for compressed bodies and for programs. They have no value at first, so no table is rewritten."""

from django.db import migrations, models

from cluster.database.compact import CompactJSONField


class Migration(migrations.Migration):
    dependencies = [("auctions", "0013_bid_that_stood")]

    operations = [
        migrations.AddField("bid", "body_packed", CompactJSONField(null=True)),
        migrations.AddField(
            "bid",
            "program",
            models.JSONField(
                null=True, help_text="The `program` of the body, by which bids are found; null if it names none."
            ),
        ),
        # So that the way back can add the column to a table with rows.
        migrations.AlterField("bid", "body", models.JSONField(null=True)),
        migrations.AlterField(
            "bid",
            "body_digest",
            models.CharField(
                blank=True,
                help_text="SHA-256 of the canonical body, to compare requests with the same idempotency key; empty"
                " without one.",
                max_length=64,
            ),
        ),
    ]
