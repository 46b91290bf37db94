"""Carry the tokens of `rest_framework.authtoken` over, hashed, and drop its table, which has them as text."""

from datetime import datetime, timezone
from hashlib import sha256

from django.db import migrations

FORMER = "authtoken_token"


def read_time(at):
    """Return a time of a row: SQLite returns it as a string, which has no time zone."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)


def carry_over(apps, schema_editor):
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        if FORMER not in connection.introspection.table_names(cursor):
            return
        cursor.execute(f"SELECT {FORMER}.key, {FORMER}.user_id, {FORMER}.created FROM {FORMER}")
        rows = cursor.fetchall()
    token = apps.get_model("accounts", "Token")
    token.objects.bulk_create(
        token(
            user_id=owner,
            name="by password",
            digest=sha256(key.encode()).hexdigest(),
            hint=key[:8],
            scope="operate",
            by_password=True,
            created_at=read_time(at),
        )
        for key, owner, at in rows
    )
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {FORMER}")


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_tokens"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [migrations.RunPython(carry_over, elidable=False)]
