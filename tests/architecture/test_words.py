"""Words and shapes of sentences that are not to come back; docs/users/glossary.md has the words to use instead."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.architecture.test_papers import tracked

ROOT: Final = Path(__file__).parents[2]
SUFFIXES: Final = (".py", ".md", ".html", ".js")
LEFT_OUT: Final = ("tests/data/", "tests/architecture/test_words.py")
"""Data of tests quotes others; this file names the words."""


class Rule(NamedTuple):
    """A pattern that no line may match, and what to say instead."""

    pattern: str
    instead: str
    allowed: tuple[str, ...] = ()
    """Files and folders where the word has another meaning; the reason is at the rule."""


WORDS: Final = (
    Rule(r"\banew\b", "again, or rebased"),
    Rule(r"what comes of it", "its result"),
    Rule(r"expected a text", "expected a string"),
    Rule(r"the plan that was found is none", "the solver returned an invalid plan"),
    Rule(r"\btake_in\b", "apply_decision"),
    Rule(r"\bleast_ratio\b", "min_cost_per_value"),
    Rule(r"\bRigidMarket\b", "RigidKernel"),
    Rule(r"\bHappenings?\b", "event"),
    Rule(r"\b(Crew|Instant|Moment)\b", "workers, or MarketTime"),
    Rule(r"\bdecision_queue\.(drain|waiting)\b", "process_pending, has_pending"),
    Rule(r"\bbooks\.(keep|take|peek)\b", "store, checkout, private_copy"),
    Rule(r"from auctions\S* import \w+ as (lane|plans|quotients|readings|tenures|told|single)\b", "its own name"),
    Rule(r"\b(layout_of|record_layout|layouts_from)\b", "snapshot_of, record_inventory"),
    Rule(r"(?i)\blane\b", "decision queue", allowed=("frontend/figures/gantt.py", "tests/frontend/test_figures.py")),
    Rule(r"InvalidField\(.*\"(must|should|has to|needs to) ", "expected ..., got ..."),
    Rule(r"(?i)\b(inventory)\.pss\b", "parameter_servers"),
    Rule(r"\.worth\b|\bworth=|\"worth\"|\bdef \w*worth\b", "value, value_at, or value_key"),
    Rule(r"(?i)\bcompetitive quotients?\b|\bquotients\(|\bRIVALS\b", "competitive ratio, or comparison"),
    Rule(r"(?i)\b(learned|printed) prices\b", "quantile prices, or paper prices"),
    Rule(
        r"^class _?(Asked|Course|Plan|Question|Rival|Row|Run|Wish)\b",
        "a name that means one thing",
        allowed=(
            *("scheduling/split_learning/plan.py", "studies/models.py"),
            "tests/scheduling/twins/documents/split_learning.py",
            *("tests/scheduling/worlds.py", "tests/mutants/workshop.py"),
            "tests/web/test_writing.py",
        ),
    ),
)
"""Words that are gone everywhere, with what to say instead.

A lane of a Gantt chart is a row of bars. A Plan is a plan of split learning; a Run is one run of an experiment, and in
tests one run of a policy or of pytest.
"""

SENTENCES: Final = (
    Rule(r"\"\"\"(Of|With|By|Whose|Where|When|Why|How|Who|Which) ", "subject, verb, object; or a noun"),
    Rule(r"\"\"\"[A-Z`].*[a-z,;]\"\"\"$", "a sentence ends with a period"),
    # Tests describe what holds, so their docstrings may begin with such a clause.
    Rule(r"\"\"\"(What|As|And|Also|Without|Over|From|To) ", "subject, verb, object; or a noun", allowed=("tests/",)),
    Rule(r"(?i)\b(so many|so much|by so)\b", "the number, or by this amount"),
    Rule(r"\b(None|[Ee]mpty|[Nn]ull) where\b", "None if ..."),
    Rule(r"(\b|_)(told|tells?|tellings?)(\b|_)", "replayed, reported, or returned"),
    Rule(r"(?<!there )\b(is|are) none\b", "is not a ..., or is invalid"),
    Rule(r"(?i)\bwhere there (is|are) none\b", "if there is none"),
    Rule(r"(?i)\b(whoever|somebody|whom)\b", "a user who ..., another process"),
    Rule(r"(?i)\bnothing but\b", "only"),
    Rule(r"(?i)\bturned away\b", "rejected"),
    Rule(r"(?i)(\"\"\"|# |[.:;] |^\s*)of which\b", "subject, verb, object"),
    Rule(r"(?i)\b(drawn|asked for) beside\b", "drawn for comparison, or requested as a comparison"),
)
"""Shapes of sentences that are gone everywhere."""


def texts() -> dict[str, list[str]]:
    """Return the lines of the files whose words count, by path."""
    paths = [str(path.relative_to(ROOT)) for path in tracked()]
    kept = [path for path in paths if path.endswith(SUFFIXES) and not path.startswith(LEFT_OUT)]
    return {path: (ROOT / path).read_text(encoding="utf-8").splitlines() for path in kept}


FILES: Final = texts()
TEXTS: Final = {path: "\n".join(lines) for path, lines in FILES.items()}


def found(rule: Rule) -> Iterator[str]:
    """Yield the lines that break a rule."""
    pattern = re.compile(rule.pattern)
    # A line that matches also matches in the text of its file, where a search is quick if it need not begin with `\b`.
    anywhere = re.compile(rule.pattern.removeprefix(r"\b"), re.MULTILINE)
    for path, lines in FILES.items():
        if anywhere.search(TEXTS[path]):
            yield from (f"{path}:{i}: {line.strip()}" for i, line in enumerate(lines, 1) if pattern.search(line))


@pytest.mark.parametrize("rule", WORDS, ids=lambda rule: rule.pattern)
def test_old_words_do_not_come_back(rule: Rule) -> None:
    wrong = [line for line in found(rule) if not line.startswith(rule.allowed or ("\0",))]
    assert not wrong, f"say {rule.instead}"


@pytest.mark.parametrize("rule", SENTENCES, ids=lambda rule: rule.pattern)
def test_sentences_are_whole(rule: Rule) -> None:
    wrong = [line for line in found(rule) if not line.startswith(rule.allowed or ("\0",))]
    assert not wrong, f"say {rule.instead}"


@pytest.mark.parametrize("rule", [rule for rule in WORDS + SENTENCES if rule.allowed], ids=lambda rule: rule.pattern)
def test_exceptions_are_needed(rule: Rule) -> None:
    lines = list(found(rule))
    assert [path for path in rule.allowed if not any(line.startswith(path) for line in lines)] == []


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ('"""Of a table: some seconds."""', True),
        ('"""Return the seconds of a table."""', False),
        ("# the plan is laid anew", True),
        ('"""None where it is not known."""', True),
        ('"""The first plan, or None if there is none."""', False),
        ('"""A line that is none."""', True),
        ("# Of which the last is kept.", True),
        ("two jobs, one of which waits", False),
        ('"""Slots in which the bound has to rise"""', True),
        ("class Row(NamedTuple):", True),
        ("class PlanRow(Schema):", False),
    ],
)
def test_the_rules_find_what_they_are_for(line: str, broken: bool) -> None:
    assert any(re.search(rule.pattern, line) for rule in WORDS + SENTENCES) is broken
