"""Indexes of bids that wait, by owner and by state without sequence numbers, and by team only for bids that have one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("auctions", "0016_bodies_in_place")]

    operations = [
        migrations.AddIndex(
            "bid",
            models.Index(
                condition=models.Q(state="submitted"), fields=["market", "sequence"], name="bid_waiting"
            ),
        ),
        migrations.AddIndex("bid", models.Index(fields=["market", "state"], name="bid_in_state")),
        migrations.AddIndex("bid", models.Index(fields=["owner", "market"], name="bid_of_owner")),
        migrations.AddIndex(
            "bid", models.Index(condition=models.Q(team__isnull=False), fields=["team"], name="bid_of_team")
        ),
    ]
