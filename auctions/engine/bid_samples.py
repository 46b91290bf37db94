"""Samples with which documents of bids are compressed: one for each model and inventory.

Bids on one model differ in their epochs, their values and a few numbers. The rest is in the sample.
"""

from typing import Final

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import InventorySnapshot
from cluster.database.compact import Sample, json_text
from cluster.models import TextSample
from scheduling.model.types import Json

OF_THE_BID: Final = frozenset(
    {"model", "epochs", "label", "program", "standing", "standing_until_s", "utility", "weight"}
)
"""Keys of a body that a model's profile does not have."""
OF_THE_CORE_BID: Final = frozenset({"id", "arrival", "epochs", "utility"})
"""Keys of a core bid that differ from bid to bid."""


def sample_for(body: Json, resolved: Json, snapshot: InventorySnapshot, known: dict[str, Sample]) -> Sample | None:
    """Return the sample that the documents of a bid resemble; None if there is none yet.

    `known` holds those of this inventory by model. Another one is made, and stored, from the first bid that takes all
    of its model's profile. It must not be called in a transaction that may be undone.
    """
    model = body.get("model")
    if not isinstance(model, str):
        return None
    if model not in known and OF_THE_BID.issuperset(body):
        core = core_bid(resolved, snapshot, bid_id="", arrival=0).to_json()
        parts = [
            {key: part for key, part in whole.items() if key not in left_out}
            for whole, left_out in ((core, OF_THE_CORE_BID), (resolved, OF_THE_BID))
        ]
        sample = Sample("".join(json_text(part) for part in parts))
        row, _ = TextSample.objects.get_or_create(key=sample.key, defaults={"text": sample.text})
        if row.text != sample.text:
            return None  # two texts with one key
        known[model] = sample
    return known.get(model)
