"""Uploaded traces: checked once to report errors, stored unchanged, and read again by every run."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from auctions.domain.errors import AuctionError, WrongState
from cluster.clock import now
from cluster.traces import gavel
from cluster.traces.formats import FORMATS, KINDS
from scheduling.model.errors import InvalidField
from scheduling.model.validation import check_each
from studies.models import Experiment, Trace
from studies.workloads.traces.reading import read_any

MOST_TRACES: Final = 100
"""Largest number of traces of one owner."""
MOST_MALFORMED: Final = 1000
"""Largest number of malformed lines that are stored; their count is always stored."""


class TooManyTraces(AuctionError):
    """Raised when the owner already has the largest number of traces."""


def keep(owner: User, text: str, *, label: str, source: str, throughputs: str = "") -> tuple[Trace, bool]:
    """Store a trace and say whether it is new: the same text with the same throughputs is stored once for each owner.

    The file has any known format: jobs, machines, step times or quotas. `throughputs` is Gavel's file of throughputs
    for jobs whose lines state mini-batches but no durations; empty: none.

    Raises
    ------
    InvalidField
        If the format is unknown, no line is a record, or the throughputs are invalid or belong to no job. What is wrong
        with both files is named together.
    TooManyTraces
        If the owner may store no more traces.
    """
    sha256 = _hash(text)
    both: list[Callable[[], Any]] = [
        partial(read_any, text, *KINDS, source=source, sha256=sha256),
        partial(_measured, throughputs),
    ]
    read, measured = check_each(both)
    holds = FORMATS[read.format].kind.replace("_", " ")
    if not read.rows:
        first = f"; {read.malformed[0]}" if read.malformed else ""
        raise InvalidField("text", f"expected at least one row with {holds}, got none{first}")
    if throughputs and holds != "jobs":
        raise InvalidField("throughputs", f"expected no throughputs with {holds}, got some")
    same = {"sha256": sha256, "throughputs_sha256": _hash(throughputs) if throughputs else ""}
    with transaction.atomic():
        User.objects.select_for_update().get(pk=owner.pk)  # two uploads at once count one by one
        known = Trace.objects.filter(owner=owner, **same).first()
        if known is not None:
            return known, False
        if Trace.objects.filter(owner=owner).count() >= MOST_TRACES:
            raise TooManyTraces(f"You have {MOST_TRACES} traces, as many as there may be; delete one first.")
        made = Trace.objects.create(
            owner=owner,
            label=label,
            source=source,
            format=read.format,
            text=text,
            records=len(read.rows),
            malformed_lines=len(read.malformed),
            malformed=[asdict(row) for row in read.malformed[:MOST_MALFORMED]],
            throughputs=measured,
            submitted_at=now(),
            **same,
        )
    return made, True


def _measured(throughputs: str) -> dict[str, dict[str, float]] | None:
    return gavel.on_one_gpu(gavel.throughputs(throughputs)) if throughputs else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def delete(trace: Trace) -> None:
    """Delete a trace; raises WrongState while an experiment reads it."""
    with transaction.atomic():
        if Trace.objects.select_for_update().filter(pk=trace.pk).first() is None:
            return  # another request has just deleted it
        user = Experiment.objects.filter(traces=trace).order_by("pk").first()
        if user is not None:
            raise WrongState(f"Experiment {user.pk} reads trace {trace.pk}; delete that first.")
        trace.delete()
