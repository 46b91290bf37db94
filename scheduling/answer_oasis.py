"""Answers to OASiS instances."""

from dataclasses import replace

from scheduling.arrays import Json
from scheduling.errors import InvalidField
from scheduling.families import Options, decide_in_order
from scheduling.instance_oasis import OasisInstance, read_oasis, to_document
from scheduling.oasis import Oasis


def answer(document: object, options: Options) -> Json:
    """Decide the jobs of an instance in order; raises InvalidField naming a field or an option."""
    options.only("OASiS", "policy", "price", "model")
    instance = read_oasis(document)
    return to_document(instance, decide_in_order(_policy(options, instance), instance.bids, instance.ledger()))


def _policy(options: Options, instance: OasisInstance) -> Oasis:
    if options.policy not in (None, Oasis.name):
        raise InvalidField("--policy", f"{options.policy} cannot decide OASiS instances")
    bare = Oasis(price=options.price or "printed", model=options.model or "worker")
    if bare.price != "printed":
        return bare
    bounds = instance.bounds()
    return replace(bare, log_low=bounds.log_low, log_high=bounds.log_high)
