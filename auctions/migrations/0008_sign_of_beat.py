"""The sign of life of beat has a row of its own name: the old one would be reported as lost for a day."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [("auctions", "0007_budgets_of_teams")]

    operations = [
        migrations.RunSQL("DELETE FROM auctions_workersign WHERE name = 'sweep'", migrations.RunSQL.noop),
    ]
