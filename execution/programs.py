"""The programs of a cluster: who may see, name, bring and close which one. Every interface follows these rules.

Operators register programs for all bidders. Where the operator of the cluster allows it, a bidder brings programs of
its own, in archives, which it alone sees and names. A program is never changed by its owner: it is closed, and another
one is brought.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.rights import operates
from auctions.domain.errors import QuotaReached, WrongState
from auctions.models import Market
from cluster import clock
from cluster.models import NAME, NAME_IN_WORDS, Cluster
from execution import archives, records
from execution.archives import BadArchive
from execution.models import OVER, Execution, Program, Training, environment, texts
from execution.places import archive_file
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.model.validation import shown

MOST_OPEN: Final = 20
"""Open programs of one user on one cluster at most."""
MOST_A_DAY: Final = 50
"""Programs that one user may bring to one cluster in a day, those included that were closed."""
TAKEN: Final = "expected a name that no program has which you may name, got {!r}"
LONGEST_ENVIRONMENT: Final = 10_000
"""Characters of all variables of a user's program at most."""


@dataclass(frozen=True)
class NewProgram:
    """A program that is brought or registered."""

    name: str
    arguments: Sequence[str]
    archive: bytes = b""
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def usable(cluster: Cluster, user: User | None) -> QuerySet[Program]:
    """Return the programs that bids of a user may name, and that a bidder sees; None: those of any bidder."""
    return Program.objects.filter(Q(owner=None) | Q(owner=user) if user else Q(owner=None), cluster=cluster)


def visible(cluster: Cluster, viewer: User) -> QuerySet[Program]:
    """Return the programs that a user may see: an operator sees those of all users."""
    rows = Program.objects.filter(cluster=cluster) if operates(viewer, cluster) else usable(cluster, viewer)
    return rows.select_related("owner", "cluster").order_by("-pk")


def open_names(cluster: Cluster, bidder: User | None) -> list[str]:
    """Return the names of the programs that a new bid of this bidder may name."""
    rows = usable(cluster, bidder).filter(is_open=True)
    if not Execution.objects.filter(cluster=cluster, own_programs=True).exists():
        rows = rows.filter(owner=None)
    return list(rows.values_list("name", flat=True))


def named(cluster: Cluster, owner: User, name: str) -> Program | None:
    """Return the program that a bid of this owner names, whether or not new bids may name it."""
    return usable(cluster, owner).filter(name=name).first()


def problems(cluster: Cluster, bidder: User | None, program: Json) -> Mapping[str, str]:
    """Return what is wrong with the program of a bid, by field; empty if it may be used on this cluster."""
    if not Execution.objects.filter(cluster=cluster).exists():
        return {"": f"expected no program: jobs of {cluster.name} are not run by this service"}
    names = open_names(cluster, bidder)
    if program["name"] not in names:
        known = f"one of {', '.join(names)}" if names else "a registered program, of which this cluster has none yet"
        return {"name": f"expected {known}, got {program['name']!r}"}
    if "continues" in program and (problem := _cannot_continue(cluster, bidder, program)):
        return {"continues": problem}
    return {}


def continued(market: Market, owner: User | None, number: int | None) -> Training | None:
    """Return the training of an earlier bid of this owner by the bid's number; None if there is none."""
    if owner is None or number is None:
        return None
    rows = Training.objects.filter(bid__market=market, bid__owner=owner.pk, bid__sequence=number)
    return rows.select_related("program").first()


def _cannot_continue(cluster: Cluster, bidder: User | None, program: Json) -> str:
    """Return why a bid cannot continue the training of an earlier bid; empty if it can."""
    number = program["continues"]
    training = continued(cluster.market, bidder, number)
    if training is None:
        return f"expected the number of an earlier bid of yours that was run, got {number}"
    if training.program.name != program["name"]:
        return f"expected a bid whose program is {program['name']}, got {number}, whose is {training.program.name}"
    if training.state not in OVER:
        return f"expected a bid whose training has ended, got {number}, whose is {training.get_state_display().lower()}"
    if records.newest_checkpoint(training) is None:
        return f"expected a bid whose training has a checkpoint, got {number}, whose has none"
    return ""


def is_taken(cluster: Cluster, owner: User | None, name: str) -> bool:
    """Return whether a name would mean two programs: an operator's has a name that no other program has."""
    rows = Program.objects.filter(cluster=cluster, name=name)
    return (rows if owner is None else rows.filter(Q(owner=None) | Q(owner=owner))).exists()


def refusal(cluster: Cluster, user: User) -> str:
    """Return why a user may not bring a program to a cluster that executes; empty if it may."""
    if operates(user, cluster) or Execution.objects.filter(cluster=cluster, own_programs=True).exists():
        return ""
    return (
        f"Users may not bring programs to {cluster.name}: its operator has not allowed it. That needs a system user for"
        " each user (first_uid), or that the users trust each other."
    )


def create(cluster: Cluster, user: User, new: NewProgram) -> Program:
    """Store a program: an operator's is for all, that of another user for its owner alone.

    Raises
    ------
    InvalidField
        If fields are wrong; the error names all of them.
    WrongState
        If the cluster executes no jobs, or users may bring no programs to it.
    QuotaReached
        If the user has as many programs as there may be.
    """
    owner = None if operates(user, cluster) else user
    if problem := refusal(cluster, user):
        raise WrongState(problem)
    refuse_all(wrong_fields(cluster, user, new))
    sha256 = archives.sha256_of(new.archive) if new.archive else ""
    with transaction.atomic():
        # One after the other: two requests at once may have found the same name free.
        if Execution.objects.select_for_update().filter(cluster=cluster).first() is None:
            raise WrongState(f"Jobs of {cluster.name} are not run by this service.")
        if is_taken(cluster, owner, new.name):
            raise InvalidField("name", TAKEN.format(new.name))
        if owner is not None:
            _check_quota(cluster, owner)
        if sha256:
            archives.store(archive_file(cluster.name, sha256), new.archive)
        return Program.objects.create(
            cluster=cluster,
            owner=owner,
            name=new.name,
            arguments=list(new.arguments),
            working_directory=new.working_directory,
            archive_sha256=sha256,
            archive_bytes=len(new.archive),
            environment=dict(new.environment),
        )


def may_close(program: Program, user: User) -> bool:
    """Return whether a user may close a program: its owner, and operators."""
    return operates(user, program.cluster) or (program.owner_id is not None and program.owner_id == user.pk)


def close(program: Program) -> None:
    """Let new bids not name a program. Bids that were admitted with it still run."""
    program.is_open = False
    program.save(update_fields=["is_open"])


def wrong_fields(cluster: Cluster, user: User, new: NewProgram) -> list[InvalidField]:
    """Return an error for each field of a program that this user may not bring as it is; empty if it may."""
    owner = None if operates(user, cluster) else user
    wrong = [
        (name, message)
        for name, value, check in (
            ("arguments", list(new.arguments), texts),
            ("environment", dict(new.environment), environment),
        )
        for message in _messages(check, value)
    ]
    if _messages(NAME, new.name):
        wrong.append(("name", f"expected {NAME_IN_WORDS}, got {shown(new.name)}"))
    if sum(len(name) + len(value) for name, value in new.environment.items()) > LONGEST_ENVIRONMENT:
        wrong.append(("environment", f"expected at most {LONGEST_ENVIRONMENT:,} characters in all, got more"))
    if is_taken(cluster, owner, new.name):
        wrong.append(("name", TAKEN.format(new.name)))
    if owner is not None and new.working_directory:
        wrong.append(("working_directory", "expected an archive instead: directories are for programs of operators"))
    elif bool(new.archive) == bool(new.working_directory):
        got = "both" if new.archive else "neither"
        wrong.append(("archive", f"expected an archive or a working directory, got {got}"))
    if new.working_directory and not new.working_directory.startswith("/"):
        wrong.append(
            ("working_directory", f"expected a whole path, which begins with /, got {new.working_directory!r}")
        )
    if new.archive:
        try:
            archives.check(new.archive)
        except BadArchive as error:
            wrong.append(("archive", str(error)))
    return [InvalidField(name, message) for name, message in wrong]


def _messages(check: object, value: object) -> list[str]:
    try:
        check(value)  # type: ignore[operator]
    except ValidationError as error:
        return [f"{message[0].lower()}{message[1:].rstrip('.')}" for message in error.messages]
    return []


def _check_quota(cluster: Cluster, owner: User) -> None:
    mine = Program.objects.filter(cluster=cluster, owner=owner)
    if mine.filter(is_open=True).count() >= MOST_OPEN:
        raise QuotaReached(f"You have {MOST_OPEN} open programs on {cluster.name}, as many as there may be; close one.")
    if mine.filter(created_at__gt=clock.now() - timedelta(days=1)).count() >= MOST_A_DAY:
        raise QuotaReached(f"You have brought {MOST_A_DAY} programs to {cluster.name} within a day: come again later.")
