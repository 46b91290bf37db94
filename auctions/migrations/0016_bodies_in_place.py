"""The compressed column takes the place of that of bodies. The lock is short: most rows were copied before."""

from importlib import import_module

from django.db import migrations

from cluster.database.compact import CompactJSONField

copied = import_module("auctions.migrations.0015_copied_bodies")


def copy_rest(apps, schema_editor):
    """Copy what was submitted since; nobody reads or writes bids until the column is in place."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("LOCK TABLE auctions_bid IN ACCESS EXCLUSIVE MODE")
    rows = apps.get_model("auctions", "Bid")._default_manager.using(schema_editor.connection.alias)
    copied.pack(rows, list(rows.filter(body_packed__isnull=True).only("body")))


def copy_back(apps, schema_editor):
    """Store bodies as they were before."""
    rows = apps.get_model("auctions", "Bid")._default_manager.using(schema_editor.connection.alias)
    last = 0
    while page := list(rows.filter(pk__gt=last).order_by("pk").only("body_packed")[: copied.PAGE]):
        for row in page:
            row.body = row.body_packed
        rows.bulk_update(page, ["body"])
        last = page[-1].pk


class Migration(migrations.Migration):
    dependencies = [("auctions", "0015_copied_bodies")]

    operations = [
        migrations.RunPython(copy_rest, copy_back),
        migrations.RemoveField("bid", "body"),
        migrations.RenameField("bid", "body_packed", "body"),
        migrations.AlterField(
            "bid", "body", CompactJSONField(help_text="The request as it was sent, in seconds, MB and Mbit/s.")
        ),
    ]
