"""Two records of the corpus side by side."""

import json
import lzma
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scheduling.model.decision import canonical, parse
from scheduling.model.types import Json
from tests.corpus.cases import Case

KEYS: Final[Mapping[str, str]] = {
    "worker_share": "worker_reserve_factor",
    "ps_share": "ps_reserve_factor",
    "fluid_fill": "target_utilisation",
    "prior_low": "initial_low",
    "prior_high": "initial_high",
    "lambda_": "lambda",
    "pss": "parameter_servers",
    "ceiling": "standalone_value",
}
"""Keys of documents that were renamed after the record was made: the old name, then the new one."""
CONVENTIONS: Final[Mapping[str, str]] = {"window": "slot_convention", "start": "start_convention"}
"""Keys that were renamed where they are parameters of DPS; elsewhere these words mean something else."""
STRINGS: Final[Mapping[str, str]] = {"printed": "paper", "learned": "quantile"}
"""Values that were renamed after the record was made: reasons, states, kinds of events, names of policies."""


def write(path: Path, cases: Iterable[Case]) -> int:
    """Write a record: one line of canonical JSON for each case, compressed; returns how many cases there are."""
    count = 0
    with lzma.open(path, "wt", encoding="utf-8") as file:
        for name, document in cases:
            file.write(canonical({"case": name, "decided": document}) + "\n")
            count += 1
    return count


def read(path: Path) -> dict[str, Json]:
    """The documents of a record by the names of their cases."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = [parse(line) for line in file]
    return {row["case"]: row["decided"] for row in rows}


def updated(record: Mapping[str, Json]) -> dict[str, Json]:
    """A record with new names for old ones, in its documents and in the names of its cases."""
    cases = {}
    for name, document in record.items():
        policy, brace, parameters = name.partition("{")
        strings = STRINGS
        if brace:
            stated = {CONVENTIONS.get(key, key): value for key, value in parse(brace + parameters).items()}
            name = policy + json.dumps(renamed(stated), sort_keys=True)
            if stated.get("price") == "fluid":
                # Receipts under fluid prices had the name of the other rule.
                strings = {**STRINGS, "learned": "fluid"}
        cases[name] = renamed(document, strings=strings)
    return cases


def renamed(value: Any, keys: Mapping[str, str] = KEYS, strings: Mapping[str, str] = STRINGS) -> Any:
    """The document with new names for old ones."""
    if isinstance(value, dict):
        if "eta_worker" in value:
            keys = {**keys, **CONVENTIONS}
        return {keys.get(key, key): renamed(one, keys, strings) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, keys, strings) for one in value]
    return strings.get(value, value) if isinstance(value, str) else value


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Each place where two documents differ: floats are equal only if each bit is."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key not in before or key not in after:
                yield f"{where}.{key}: {'missing before' if key not in before else 'missing now'}"
            else:
                yield from differences(before[key], after[key], f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} entries before, {len(after)} now"
        for number, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from differences(one, other, f"{where}[{number}]")
    elif not _same(before, after):
        yield f"{where}: {before!r} before, {after!r} now"


def _same(before: Any, after: Any) -> bool:
    if type(before) is not type(after) or before != after:
        return False
    return not isinstance(before, float) or math.copysign(1.0, before) == math.copysign(1.0, after)
