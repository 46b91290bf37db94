"""`python -m scheduling decide INSTANCE.json`: decide the jobs of an instance file, print the decisions as JSON."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from time import perf_counter
from typing import NoReturn

from scheduling.instances import answer_dps, answer_oasis, answer_preemptive, answer_split_learning, answer_weighted
from scheduling.instances.families import Family, Options, family_of
from scheduling.instances.fields import parse_document
from scheduling.model.errors import InvalidField, SchedulingError, in_words
from scheduling.preemptive.dispatch import RULES
from scheduling.registry import POLICIES
from scheduling.split_learning.methods import METHODS

FAMILIES = (
    Family("DPS", "worker_types", answer_dps.answer),
    Family("OASiS", "worker_servers", answer_oasis.answer),
    Family("weighted completion", "arch", answer_weighted.answer),
    Family("preemptive", "cloud", answer_preemptive.answer),
    Family("split learning", "helpers", answer_split_learning.answering(perf_counter)),
)
LARGEST_FILE = 100_000_000
"""Bytes."""
OLD_PRICES = {"printed": "paper", "learned": "quantile"}
"""Former names of price rules, which the command still reads."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; exit status 2 and one line on standard error for bad input."""
    given = vars(_options().parse_args(arguments))
    options = Options(**{one.name: given[one.name] for one in fields(Options)})
    try:
        document = parse_document(_read(given["instance"]))
        answer = family_of(document, FAMILIES).answer(document, options)
    except SchedulingError as error:
        print(" ".join(in_words(error).split()), file=sys.stderr)
        return 2
    print(json.dumps(answer, indent=1, allow_nan=False))
    return 0


def _read(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise InvalidField("INSTANCE", f"expected at most {LARGEST_FILE} bytes, got more in {name}")
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidField("INSTANCE", f"expected a readable file, got {name}: {error}") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other bad input."""
        self.exit(2, f"{' '.join(message.split())}\n")


def _options() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m scheduling", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    decide = commands.add_parser("decide", help="decide the jobs of an instance file")
    decide.add_argument("instance", metavar="INSTANCE", help="a JSON file, see docs/users/instance-files.md")
    decide.add_argument("--policy", choices=sorted(POLICIES), help="default: that of the instance's paper")
    decide.add_argument(
        "--price",
        type=lambda text: OLD_PRICES.get(text, text),
        choices=("paper", "quantile"),
        help="DPS, OASiS; default: paper",
    )
    decide.add_argument(
        "--slot-convention",
        "--window",
        choices=("half_open", "inclusive"),
        help="DPS, slots that a job holds; default: the file's, else half_open",
    )
    decide.add_argument(
        "--start-convention",
        "--start",
        choices=("ge", "strict"),
        help="DPS, first usable slot; default: the file's, else ge",
    )
    decide.add_argument("--model", choices=("worker", "chunk"), help="OASiS; default: worker")
    decide.add_argument(
        "--mode", choices=("rolling", "search", "interval"), help="weighted completion; default: rolling"
    )
    decide.add_argument("--cloud", choices=RULES, help="preemptive, edge or cloud; default: jobmax")
    decide.add_argument(
        "--storage", choices=("ignored", "limited"), help="preemptive, what servers can store; default: ignored"
    )
    decide.add_argument("--ageing", metavar="NUMBER", help="preemptive, slots of rank per slot of arrival; default: 0")
    decide.add_argument("--method", choices=tuple(METHODS), help="split learning; default: exact")
    decide.add_argument("--seconds", metavar="NUMBER", help="split learning, time it may take; default: 10")
    decide.add_argument("--seed", metavar="NUMBER", help="split learning, of what is drawn; default: 0")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends without a traceback where nobody reads on, as after `| head`
    sys.exit(main())
