"""Changes since a plan was made, in REST."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Final

from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.split_learning.document import LONGEST_NAME
from scheduling.split_learning.instance import MOST_CLIENTS, TIMES
from studies.split_learning.schemas.instance import MOST_PAIRS, gigabytes_in, slots_in
from web.fields import ByName, Quantity, Rows, Text
from web.schema import Schema, refused

LARGEST_FACTOR: Final = 1000
NEW_TIMES: Final = "New times of clients, slots. If two rows name the same time, the later row counts."
OWN_TIMES: Final = "Its times with each helper that is not gone, by the helper's name."


class TimesIn(Schema):
    client = Text(help_text="Name of the client.")
    helper = Text(required=False, help_text="Name of the helper; all helpers if not given.")
    release, forward = slots_in("New release", required=False), slots_in("New forward", required=False)
    gap, backward = slots_in("New gap", required=False), slots_in("New backward", required=False)
    tail = slots_in("New tail", required=False)

    def validate(self, attrs: Json) -> Json:
        """Check that there is at least one new time."""
        if not any(name in attrs for name in TIMES):
            problem = f"expected at least one of {', '.join(TIMES)} of client {attrs['client']}, got none"
            raise refused(InvalidField("", problem))
        return attrs


class JoinedTimesIn(Schema):
    release, forward, gap = slots_in("Its release"), slots_in("Its forward"), slots_in("Its gap")
    backward, tail = slots_in("Its backward"), slots_in("Its tail")


class JoinIn(Schema):
    name = Text(LONGEST_NAME, line=True, help_text="A name that no client has.")
    like = Text(required=False, help_text="A client whose times and demand are copied. Or give demand_gb and times.")
    demand_gb = gigabytes_in("Memory that it takes on its helper, GB.")
    times = ByName(JoinedTimesIn(), required=False, help_text=OWN_TIMES)

    def validate(self, attrs: Json) -> Json:
        """Check that there is either `like`, or both `demand_gb` and `times`."""
        if ("like" in attrs) == ("times" in attrs) or ("times" in attrs) != ("demand_gb" in attrs):
            problem = (
                f"expected either like, or demand_gb and times, of client {attrs['name']}, got another set of keys"
            )
            raise refused(InvalidField("", problem))
        return attrs


def _factors(text: str) -> ByName:
    return ByName(Quantity(0, LARGEST_FACTOR, exact=True), required=False, help_text=text)


class ChangesIn(Schema):
    drop = Rows(Text(), required=False, help_text="Names of clients that dropped out.")
    gone = Rows(Text(), required=False, help_text="Names of helpers that are gone.")
    slower = _factors("Factor by client: multiplies release, gap and tail, rounded up to whole slots.")
    slower_helpers = _factors("Factor by helper: multiplies forward and backward passes, rounded up to whole slots.")
    times = Rows(TimesIn(), most=MOST_PAIRS, required=False, help_text=NEW_TIMES)
    join = Rows(JoinIn(), most=MOST_CLIENTS, required=False, help_text="Clients that join.")

    def validate(self, attrs: Json) -> Json:
        """Check that there is at least one change."""
        if not any(attrs.values()):
            raise refused(InvalidField("", f"expected at least one of {', '.join(self.fields)}, got none"))
        return attrs
