"""Bodies are copied to the compressed column while bids are submitted and decided: each page is a transaction."""

from django.db import migrations, transaction

PAGE = 200


def copy(apps, schema_editor):
    """Copy what is not copied yet, in the order of keys; a copy that was interrupted goes on where it was."""
    rows = apps.get_model("auctions", "Bid")._default_manager.using(schema_editor.connection.alias)
    last, found = 0, True
    while found:
        with transaction.atomic(using=rows.db):
            missing = rows.select_for_update(no_key=True).filter(pk__gt=last, body_packed__isnull=True).order_by("pk")
            found = list(missing.only("body")[:PAGE])
            pack(rows, found)
        last = found[-1].pk if found else last


def pack(rows, page):
    """Store the bodies of these rows compressed, and their programs."""
    for row in page:
        row.body_packed, row.program = row.body, row.body.get("program")
    rows.bulk_update([row for row in page if row.program is None], ["body_packed"])
    rows.bulk_update([row for row in page if row.program is not None], ["body_packed", "program"])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("auctions", "0014_columns_of_bodies")]

    operations = [migrations.RunPython(copy, migrations.RunPython.noop)]
