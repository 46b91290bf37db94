"""Documents of bids and receipts are stored compressed: those that are there are copied. Two indexes less."""

from django.db import migrations, models

from cluster.database.compact import CompactJSONField, CompactTextField

TEXTS = (
    ("bid", "resolved_request", "document"),
    ("bid", "core_bid", "document"),
    ("decisionrecord", "receipt", "text"),
    ("firstdecision", "receipt", "text"),
)
PLAIN = {"document": models.JSONField, "text": models.TextField}
PACKED = {"document": CompactJSONField, "text": CompactTextField}
HELP = {
    "resolved_request": "The request with the data of the model's profile; it refers to servers and machine types by name,"
    " so it stays valid if the inventory changes.",
    "core_bid": "The bid as the policy reads it, in slots and exact rationals, by position in the inventory.",
}
PAGE = 500


def copy(apps, schema_editor, *, source, target):
    """Store each text in the new column, page by page."""
    for model in sorted({model for model, _, _ in TEXTS}):
        columns = [name for of, name, _ in TEXTS if of == model]
        rows = apps.get_model("auctions", model)._default_manager.using(schema_editor.connection.alias)
        last = 0
        while page := list(rows.filter(pk__gt=last).order_by("pk").only(*(source(name) for name in columns))[:PAGE]):
            for row in page:
                for name in columns:
                    setattr(row, target(name), getattr(row, source(name)))
            rows.bulk_update(page, [target(name) for name in columns], batch_size=100)
            last = page[-1].pk


def forwards(apps, schema_editor):
    copy(apps, schema_editor, source=lambda name: name, target=lambda name: f"{name}_packed")


def backwards(apps, schema_editor):
    copy(apps, schema_editor, source=lambda name: f"{name}_packed", target=lambda name: name)


class Migration(migrations.Migration):
    dependencies = [("auctions", "0004_bid_team")]

    operations = [
        *(
            migrations.AlterField(
                model,
                "market",
                models.ForeignKey(
                    on_delete=models.PROTECT, related_name=name, to="auctions.market", db_index=False
                ),
            )
            for model, name in (("bid", "bids"), ("event", "events"))
        ),
        *(
            operation
            for model, name, kind in TEXTS
            for operation in (
                migrations.AddField(model, f"{name}_packed", PACKED[kind](null=True)),
                # So that the way back can add the column to a table with rows.
                migrations.AlterField(model, name, PLAIN[kind](null=True)),
            )
        ),
        migrations.RunPython(forwards, backwards),
        *(
            operation
            for model, name, kind in TEXTS
            for operation in (
                migrations.RemoveField(model, name),
                migrations.RenameField(model, f"{name}_packed", name),
                migrations.AlterField(model, name, PACKED[kind](help_text=HELP.get(name, ""))),
            )
        ),
    ]
