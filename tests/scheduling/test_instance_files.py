"""The page about instance files and the readers agree: examples, fields, limits, defaults, options and utilities."""

import copy
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from scheduling.__main__ import FAMILIES, LARGEST_FILE, main
from scheduling.instances.families import Options
from scheduling.instances.fields import MOST_CELLS
from scheduling.instances.preemptive import LARGEST_SCALE, MOST_MACHINES
from scheduling.model.errors import SchedulingError, in_words
from scheduling.model.types import Json
from scheduling.model.utility import FORMS, MOST_POINTS
from scheduling.model.validation import LARGEST_INTEGER, LARGEST_MONEY, MOST_NAMED
from tests.processes import ROOT

PAGE = (ROOT / "docs/users/instance-files.md").read_text()
SECTIONS = {part.split("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
ANSWER = {family.name: family.answer for family in FAMILIES}
EXAMPLES: dict[str, Json] = {
    name: json.loads(part.split("```json\n")[1].split("```")[0]) for name, part in SECTIONS.items() if "```json" in part
}
LEFT_OUT = object()
BEYOND = 10**7
"""More than every limit that a table states by a name, such as a capacity."""


def rows(section: str) -> Iterator[list[str]]:
    """The cells of each row of the tables of a section."""
    for line in SECTIONS[section].splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@dataclass(frozen=True)
class Field:
    """One field of a table."""

    path: str
    limits: str
    default: str

    @property
    def key(self) -> list[str]:
        """Its path in a document whose lists have one entry that counts: `jobs[0].v`."""
        return re.sub(r"\[\w\](?=.*\.)", ".0", re.sub(r"(\[\w\])+$", "", self.path)).split(".")

    @property
    def indices(self) -> int:
        """The depth of the lists that it consists of."""
        return self.path.rpartition(".")[2].count("[")

    @property
    def named(self) -> str:
        """Its name in errors, without the indices of its own lists."""
        return re.sub(r"\.0\b", "[0]", ".".join(self.key))


TABLES = {
    name: [
        Field(path, cells[2], cells[4])
        for cells in rows(name)
        if len(cells) == 5 and cells[0] != "field"
        for path in codes(cells[0])
    ]
    for name in EXAMPLES
}
ALL = [(name, field) for name in TABLES for field in TABLES[name]]
FIELDS = [pytest.param(name, field, id=f"{name}-{field.path}") for name, field in ALL]
STATED = [pytest.param(name, field, id=f"{name}-{field.path}") for name, field in ALL if field.default[:1] == "`"]
"""Fields whose default the table states as a value."""


def with_job(document: Json, left_out: str = "", **more: object) -> Json:
    jobs = [{key: value for key, value in job.items() if key not in left_out.split()} for job in document["jobs"]]
    return document | {"jobs": [{**job, **more} for job in jobs]}


def at(document: Any, key: list[str]) -> Any:
    for step in key:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def changed(document: Json, key: list[str], value: object) -> Json:
    found = copy.deepcopy(document)
    inner, last = at(found, key[:-1]), key[-1]
    if value is LEFT_OUT:
        del inner[last]
    else:
        inner[int(last) if isinstance(inner, list) else last] = value
    return found


def variants() -> dict[str, list[Json]]:
    """The examples with all other fields of their tables; several documents where fields exclude one another."""
    dps, oasis, weighted, preemptive = (copy.deepcopy(one) for one in EXAMPLES.values())
    dps["servers"][0]["cloud"] = False
    dps |= {"initial_worker_usage": [[[0]]] * 4, "initial_ps_usage": [[[0]]] * 4}
    oasis |= {"initial_worker_usage": [[[0, 0]]] * 3, "initial_ps_usage": [[[0, 0]]] * 3}
    falling = {"type": "sigmoid", "g1": 12, "g2": 40, "g3": 1}
    own_prices = with_job(changed(oasis, ["prices"], LEFT_OUT), utility=falling)
    own_prices |= {"initial_worker_usage": [[[0, 8]]] * 3, "u_arg": "slots", "l_arg": "horizon"}
    readers = {"name": "n", "note": "n", "paper": "p", "expected": {}}
    weighted |= readers | {"lambda": 2, "kappa": 1, "alpha": 4, "tau": 3, "beta": [[[1, 1], [0, 0]]]}
    ring = with_job({key: value for key, value in weighted.items() if key not in ("bw", "pss")}, U=0) | {"arch": "ring"}
    preemptive["servers"][0]["storage"] = 5
    preemptive = with_job(preemptive, worker_type=0, chunk_size=0, ps_types=[0], gang=1) | readers
    return {
        "DPS": [
            dps | {"conventions": {"slot_convention": "half_open", "start_convention": "ge"}},
            dps | {"conventions": {"window": "half_open", "start": "ge"}},
        ],
        "OASiS": [oasis, oasis | {"prices": {"lnL1": 0, "lnL2": 0, "lnU1": [1, 1], "lnU2": [1, 1]}}, own_prices],
        "Weighted completion": [weighted, ring],
        "Preemptive": [preemptive, with_job(preemptive, left_out="p0 p1", E=1, B=1, m=1, G=0, qb=0)],
    }


DOCUMENTS = variants()


def refused(name: str, document: Json, options: Options | None = None) -> str:
    """Return the error of a document; empty if there is none."""
    try:
        ANSWER[family(name)](document, options or Options())
    except SchedulingError as error:
        return in_words(error)
    return ""


def family(name: str) -> str:
    return name if name in ANSWER else name.lower()


def has(document: Json, field: Field) -> bool:
    try:
        value = at(document, field.key + ["0"] * field.indices)
    except (KeyError, TypeError):
        return False
    return not isinstance(value, list) or field.limits == "anything"


def holder(name: str, field: Field) -> Json:
    """The first document that has the field."""
    return next(document for document in DOCUMENTS[name] if has(document, field))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_answer_that_the_page_prints(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, command, printed = re.findall(r"^```(?:json|sh)\n(.*?)^```", SECTIONS[name], re.M | re.S)
    arguments = shlex.split(command)
    (file,) = [word for word in arguments if word.endswith(".json")]
    (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert f"Save this as `{file}`" in SECTIONS[name]
    assert main(arguments[arguments.index("decide") :]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(printed)


def test_the_page_has_every_family_and_the_field_by_which_it_is_recognised() -> None:
    table = PAGE.split("\n## ")[0]
    stated = re.findall(r"^\| \[?([\w ]+?)(?:\]\(\S+\))? \| `(\w+)` \|", table, re.M)
    assert stated == [(family.name, family.key) for family in FAMILIES]
    assert [family(name) for name in EXAMPLES] == [family.name for family in FAMILIES[:4]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_table_has_exactly_the_fields_that_the_reader_accepts(name: str) -> None:
    """Each object of a document is given an unknown field: the error lists those that are known."""
    found = set[str]()
    for document in DOCUMENTS[name]:
        assert refused(name, document) == ""
        for place in objects(document):
            error = refused(name, changed(document, [*place, "no_such_field"], 1))
            known = re.findall(r"no_such_field: unknown; known: ([^;]*)", error)
            assert len(known) == 1, error
            found |= {".".join([*place, key]) for key in known[0].split(", ")}
    parents = {".".join(field.key[:depth]) for field in TABLES[name] for depth in range(1, len(field.key))}
    assert found == {".".join(field.key) for field in TABLES[name]} | {one for one in parents if one[-2:] != ".0"}


def objects(document: Json) -> Iterator[list[str]]:
    """The paths of the objects of a document, by the first entry of each list."""
    yield []
    for key, value in document.items():
        if isinstance(value, list) and isinstance(value[0], dict):
            yield [key, "0"]
        if isinstance(value, dict) and key != "expected":
            yield [key]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_is_required_as_the_table_says(name: str, field: Field) -> None:
    error = refused(name, changed(holder(name, field), field.key, LEFT_OUT))
    assert error.startswith(f"{field.named}: ") == field.default.startswith("required"), error
    assert bool(error) == field.default.startswith("required")


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_value_outside_the_limits_of_the_table_is_refused_with_these_limits(name: str, field: Field) -> None:
    document = holder(name, field)
    place = field.key + ["0"] * field.indices
    named = field.named + "[0]" * field.indices
    for value, message in wrong(field.limits):
        error = refused(name, changed(document, place, value))
        assert error.startswith(f"{named}: {message}"), f"{value}: {error}"
    if field.limits == "anything":
        assert refused(name, changed(document, place, None)) == ""


def wrong(limits: str) -> Iterator[tuple[object, str]]:
    """Values that limits exclude, and the beginning of their errors."""
    if limits in ("anything", "object"):
        yield from [] if limits == "anything" else [(5, "expected an object, got 5")]
    elif limits == "true or false":
        yield 1, "expected true or false, got 1"
    elif limits == "whole number or text":
        yield 1.5, "expected a whole number or a string, got 1.5"
    elif limits.startswith("`"):
        yield (
            "other",
            f"expected {' or '.join(codes(limits))}, got"
            if limits == "`ps`, `ring`"
            else (f"expected one of {', '.join(codes(limits))}, got"),
        )
    else:
        yield from wrong_number(limits)


def wrong_number(limits: str) -> Iterator[tuple[object, str]]:
    stated = re.fullmatch(r"(whole number|number)( above 0)?(?:, (?:(\S+) )?to (.+))?", limits)
    assert stated, limits
    kind, above, low, high = stated.groups()
    high = high or f"{LARGEST_INTEGER:,}"
    low = low or "0"
    whole = kind == "whole number"
    yield "x", "expected a whole number, got 'x'" if whole else "expected a finite number, got 'x'"
    if whole:
        yield 1.5, "expected a whole number, got 1.5"
    if above:
        yield 0, "expected more than 0, got 0"
    if high.startswith("`"):
        yield BEYOND, "expected "
        yield -1, f"expected {low} to "
    elif low.startswith("`"):
        yield -BEYOND, "expected "
        yield int(high.replace(",", "")) * 2, "expected "
    else:
        least, most = (float(number.replace(",", "")) for number in (low, high))
        yield int(most) + 1, f"expected {low} to {high}, got"
        yield least - 1 if not whole else int(least) - 1, f"expected {low} to {high}, got"


@pytest.mark.parametrize(("name", "field"), STATED)
def test_a_field_with_its_default_is_as_good_as_none(name: str, field: Field) -> None:
    document, answer = holder(name, field), ANSWER[family(name)]
    without = changed(document, field.key, LEFT_OUT)
    stated = changed(document, field.key, json.loads(codes(field.default)[0]))
    assert answer(stated, Options()) == answer(without, Options())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_field_of_an_answer_is_in_the_text_or_speaks_for_itself(name: str) -> None:
    plain = {"id", "jobs", "accept", "payoff", "payment", "value", "welfare", "schedule", "completion", "jct", "cost"}
    plain |= {"total_jct", "preemptions", "weighted_completion"}
    keys = set(re.findall(r'"([a-zA-Z_]+)":', SECTIONS[name].split("```json\n")[2].split("```")[0])) - plain
    text = SECTIONS[name].split("```\n")[-1].split("| field |")[0]
    assert keys <= set(codes(text))


OPTIONS = [cells for cells in rows("Options") if cells[0] != "option"]


def test_the_page_has_every_option_of_the_command() -> None:
    assert {codes(cells[0])[0] for cells in OPTIONS} == {f"--{one.name.replace('_', '-')}" for one in fields(Options)}


@pytest.mark.parametrize("cells", OPTIONS, ids=lambda cells: f"{cells[0]} {cells[1]}")
def test_an_option_has_the_values_of_the_page_and_applies_to_its_families_only(
    cells: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    option, values = codes(cells[0])[0], codes(cells[2]) or ["exact"]
    families = cells[1].split(", ")
    others = {name for other in OPTIONS if other[0] == cells[0] for name in other[1].split(", ")}
    key = option[2:].replace("-", "_")
    for name, example in EXAMPLES.items():
        bare = ANSWER[family(name)](example, Options())
        if family(name) in families:
            assert ANSWER[family(name)](example, Options(**{key: values[0]})) == bare
            assert [refused(name, example, Options(**{key: value})) for value in values] == [""] * len(values)
        elif family(name) not in others:
            error = refused(name, example, Options(**{key: values[0]}))
            assert error.startswith(f"{option}: expected no such option for ")
    if len(values) > 1 and "another" not in cells[2]:
        with pytest.raises(SystemExit):
            main(["decide", "x.json", option, "?"])
        assert set(re.findall(r"[\w-]+", capsys.readouterr().err.split("choose from")[1])) == set(values)


def test_the_table_of_utilities_has_their_types_and_fields() -> None:
    stated = {codes(cells[0])[0]: set(codes(cells[1])) for cells in rows("Utilities") if cells[0] != "type"}
    assert stated == {name: {field.name for field in fields(form)} for name, form in FORMS.items()}


@pytest.mark.parametrize("form", FORMS)
def test_amounts_of_money_in_utilities_are_those_that_the_page_names(form: str) -> None:
    money = codes(SECTIONS["Utilities"].split("Amounts of money")[1].split(")")[0])
    for field in fields(FORMS[form]):
        if field.name not in ("values", "points"):
            document = {"type": form, **{one.name: 1 for one in fields(FORMS[form])}, field.name: 1e14}
            document |= {"points": [[0, 1]]} if form == "piecewise_linear" else {}
            error = refused("DPS", with_job(EXAMPLES["DPS"], utility=document))
            high = LARGEST_MONEY if field.name in money else LARGEST_INTEGER
            assert error.startswith(f"jobs[0].utility.{field.name}: expected 0 to {int(high):,}, got"), error
        else:
            assert (field.name == "values") == (field.name in money)


@pytest.mark.parametrize(
    ("utility", "message"),
    [
        ({"type": "table", "values": [1] * 100_001}, "values: expected 1 to 100000 numbers"),
        ({"type": "table", "values": [10**13]}, f"values[0]: expected 0 to {int(LARGEST_MONEY):,}, got"),
        ({"type": "piecewise_linear", "value": 1, "points": [[0, 1]] * 1001}, "points: expected 1 to 1000 points"),
    ],
    ids=["table", "money", "points"],
)
def test_limits_of_lists_in_utilities_are_those_of_the_page(utility: Json, message: str) -> None:
    assert refused("DPS", with_job(EXAMPLES["DPS"], utility=utility)).startswith(f"jobs[0].utility.{message}")
    assert "1 to 100,000 values" in SECTIONS["Utilities"]
    assert f"1 to {MOST_POINTS:,} pairs" in SECTIONS["Utilities"]


def test_the_text_states_the_limits_of_whole_files() -> None:
    common, preemptive = (" ".join(SECTIONS[name].split()) for name in ("All files", "Preemptive"))
    assert f"at most {LARGEST_FILE:,} bytes" in common
    assert f"T x servers x resources is at most {MOST_CELLS:,}" in common
    assert f"0 to {LARGEST_INTEGER:,}" in common
    assert f"up to {MOST_NAMED} fields" in common
    assert f"At most {MOST_MACHINES:,} workers" in preemptive
    assert f"a common denominator of at most {LARGEST_SCALE:,}" in preemptive


def test_prices_and_conventions_may_be_left_out() -> None:
    for name, key in (("DPS", "prices"), ("DPS", "conventions"), ("OASiS", "prices")):
        assert refused(name, changed(DOCUMENTS[name][0], [key], LEFT_OUT)) == ""


def test_the_help_of_the_command_names_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["decide", "--help"])
    assert "docs/users/instance-files.md" in " ".join(capsys.readouterr().out.split())
