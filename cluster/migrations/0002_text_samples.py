"""Documents of bids are compressed with samples. What was stored before is still read.

The way back stores each of them without a sample again.
"""

from django.db import migrations, models

from cluster.database.compact import SAMPLED, packed, unpacked

TABLE = "auctions_bid"
COLUMNS = ("core_bid", "resolved_request")
PAGE = 500


def forwards(apps, schema_editor):
    """Nothing to do: the first byte of a text says how it is compressed."""


def backwards(apps, schema_editor):
    """Store texts as they were before, page by page; no bid is stored meanwhile."""
    connection = schema_editor.connection
    if TABLE not in connection.introspection.table_names():
        return
    if connection.vendor == "postgresql":
        schema_editor.execute(f"LOCK TABLE {TABLE} IN EXCLUSIVE MODE")
    last, query = 0, f"SELECT id, {', '.join(COLUMNS)} FROM {TABLE} WHERE id > %s ORDER BY id LIMIT {PAGE}"
    with connection.cursor() as cursor:
        while True:
            cursor.execute(query, [last])
            rows = cursor.fetchall()
            if not rows:
                return
            for pk, *texts in rows:
                if any(_has_sample(text) for text in texts):
                    plain = [_without_sample(text, connection) for text in texts]
                    changes = ", ".join(f"{column} = %s" for column in COLUMNS)
                    cursor.execute(f"UPDATE {TABLE} SET {changes} WHERE id = %s", [*plain, pk])
            last = rows[-1][0]


def _has_sample(text):
    return isinstance(text, bytes | memoryview) and bytes(text[:1]) == bytes((SAMPLED,))


def _without_sample(text, connection):
    return connection.Database.Binary(packed(unpacked(bytes(text)))) if _has_sample(text) else text


class Migration(migrations.Migration):
    dependencies = [("cluster", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="TextSample",
            fields=[
                ("key", models.BigIntegerField(primary_key=True, serialize=False)),
                ("text", models.TextField()),
            ],
        ),
        migrations.RunPython(forwards, backwards),
    ]
