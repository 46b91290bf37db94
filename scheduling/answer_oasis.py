"""Answers to OASiS instances."""

from scheduling.arrays import Json
from scheduling.errors import InvalidField
from scheduling.families import Options, decide_in_order
from scheduling.instance_oasis import OasisInstance, read_oasis, to_document
from scheduling.oasis import Oasis
from scheduling.registry import make_policy


def answer(document: object, options: Options) -> Json:
    """Decide the jobs of an instance in order; raises InvalidField naming a field or an option."""
    options.only("OASiS", "policy", "price", "model")
    instance = read_oasis(document)
    return to_document(instance, decide_in_order(_policy(options, instance), instance.bids, instance.ledger()))


def _policy(options: Options, instance: OasisInstance) -> Oasis:
    parameters: Json = {"price": options.price or "printed", "model": options.model or "worker"}
    if parameters["price"] == "printed":
        bounds = instance.bounds()
        parameters |= {"log_low": bounds.log_low, "log_high": bounds.log_high}
    policy = make_policy(options.policy or "oasis", parameters)
    if not isinstance(policy, Oasis):
        raise InvalidField("--policy", f"{options.policy} cannot decide OASiS instances")
    return policy
