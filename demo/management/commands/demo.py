"""`manage.py demo`: markets with streams of bids, live until Ctrl-C."""

import json
import signal
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from auctions.models import Bid, Market
from auctions.readings import certificates, market_readings
from cluster.addresses import port
from cluster.traces.philly import read
from cluster.traces.records import Malformed, TraceJob
from demo import client, jobs, philly, run, training, world
from demo.jobs import Offer
from demo.run import DemoError, Stream, Tally
from demo.scenarios import DPS, SCENARIOS, TRAINING, Scenario
from scheduling.model.errors import InvalidField
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES

SECONDS_PER_SLOT = 6.0
"""Wall time a slot of the live demo takes."""

SECONDS_PER_TRACED_SLOT = 1.0
"""The same under a trace: its first days are nearly empty."""

SHORTEST_SLOT_S, LONGEST_SLOT_S = 0.1, 86400.0
"""Wall time of a slot that --slot-takes may ask for."""
ONCE_BIDS = 40
"""Number of bids for each market."""
WAIT_S = 30
OWN_SHARE = 3
"""Every third bid is the bidder's own."""


TRACE_NOTE = "Values synthetic: drawn from a seed. Arrivals, sizes and durations are those of a real trace (Philly)."

GREETING = """
Open for bids:

{rows}

  operator   {operator}   (sees all bids; admin at {base}/admin/)
  bidder     {bidder}   (sees its own bids)

Bid by hand:

  TOKEN=$(curl -s {base}/api/v1/token -H 'Content-Type: application/json' -d '{login}' | cut -d'"' -f4)
"""
BY_HAND = """  curl -s {base}/api/v1/clusters/{name}/bids -H "Authorization: Token $TOKEN" \\
    -H 'Content-Type: application/json' -H 'Prefer: wait=5' -d '{body}'"""
FAREWELL = """
On a first run each market decides once its kernels are compiled, which its page says.
Ctrl-C ends it; the next run carries on. make demo-reset starts again.
"""


class Command(BaseCommand):
    """Set everything up, serve, and feed; a second run carries on."""

    help = "Run demo markets with streams of bids through the REST API."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options that the Makefile passes."""
        parser.add_argument("--port", type=port, help="default: the first free one from 8000")
        parser.add_argument("--seed", type=_seed, default=1)
        parser.add_argument("--trace", type=Path, help="a Philly CSV file to take jobs from")
        parser.add_argument("--once", action="store_true", help="send --bids bids to each market, print tables, exit")
        parser.add_argument("--bids", type=_bids, default=ONCE_BIDS)
        parser.add_argument("--slot-takes", type=_seconds, help="seconds a slot of the live demo takes")
        parser.add_argument("--reset", action="store_true", help="forget the demo's data and exit")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C, or once."""
        try:
            with run.interruptible(), world.sole(settings.VAR_DIR):
                if options["reset"]:
                    self._reset()
                else:
                    self._demo(options)
        except DemoError as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            self.stdout.write("\nStopped; the next run carries on from here.")

    def _reset(self) -> None:
        if connection.vendor != "sqlite":
            raise DemoError("Only the SQLite demo can be reset; DATABASE_URL names another database.")
        connection.close()
        world.forget(settings.VAR_DIR, Path(connection.settings_dict["NAME"]))
        self.stdout.write("The demo starts again with the next run.")

    def _demo(self, options: dict[str, Any]) -> None:
        trace: Path | None = options["trace"]
        if trace is not None and not trace.is_file():
            raise DemoError(f"There is no file {trace}.")
        if trace is not None:
            self._check(trace)
        port = run.choose_port(options["port"])
        live = SCENARIOS if options["once"] else (*SCENARIOS, *TRAINING)
        scenarios = live if trace is None else (_under(trace),)
        policies = [scenario.policy for scenario in scenarios]
        with (
            run.compiled(policies, root=settings.BASE_DIR),
            run.server(port, policies, root=settings.BASE_DIR) as server,
        ):
            call_command("migrate", verbosity=0)
            known = world.passwords(settings.VAR_DIR)
            world.people(known)
            markets = {scenario.name: world.market_of(scenario, seed=options["seed"]) for scenario in scenarios}
            executing = [markets[scenario.name].cluster for scenario in scenarios if scenario.executes]
            for cluster in executing:
                training.let_execute(cluster, root=settings.BASE_DIR)
            server.open()
            base = server.base
            self._greet(base, scenarios, markets, known, once=options["once"])
            tokens = world.tokens()
            streams = []
            for scenario in scenarios:
                market = markets[scenario.name]
                from_s = run.settle_clock(market.cluster)
                offers = self._offers(scenario, market, trace, seed=options["seed"], from_s=from_s)
                send = _sender(base, scenario.name, tokens, wait_s=WAIT_S if options["once"] else 0)
                streams.append(Stream(market.cluster, offers, send))
            deciding = client.deciding(base, token=tokens["bidder"])
            if options["once"]:
                for stream in streams:
                    run.feed_at_once(stream, at_most=options["bids"], deciding=deciding, say=self.stdout.write)
            else:
                takes_s = options["slot_takes"] or (SECONDS_PER_SLOT if trace is None else SECONDS_PER_TRACED_SLOT)
                others = {one.name: one.slot_takes_s for one in scenarios if one.slot_takes_s is not None}
                with (
                    training.executor(executing, root=settings.BASE_DIR),
                    run.time_passing(takes_s=takes_s, others=others) as start,
                ):
                    run.feed(streams, deciding=deciding, start=start, say=self.stdout.write)
                    self.stdout.write("The trace has ended; the market goes on until Ctrl-C.")
                    _until_interrupted()
        if options["once"]:
            self._conclude([(markets[stream.cluster.name], stream.tally) for stream in streams])

    def _offers(
        self, scenario: Scenario, market: Market, trace: Path | None, *, seed: int, from_s: float
    ) -> Iterator[Offer]:
        """The stream from where an earlier run left it."""
        machines = jobs.machines_of(market.cluster)
        sent = Bid.objects.filter(market=market).exclude(idempotency_key=None)
        if trace is None:
            number = sent.filter(idempotency_key__startswith=f"demo-{seed}-").count() + 1
            yield from scenario.offers(machines, seed=seed, number=number, from_s=from_s)
            return
        done = set(sent.values_list("idempotency_key", flat=True))
        posted = malformed = 0
        # The market's clock began with the trace's first row.
        with trace.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
            for row in self._rows(lines):
                if isinstance(row, Malformed):
                    malformed += 1
                    self.stdout.write(f"{trace.name} line {row.line} is no job: {row.field}: {row.message}")
                    continue
                offer = philly.offer(row, machines, seed=seed, name=_slug(trace), from_s=0.0)
                if offer.key not in done:
                    posted += 1
                    yield offer
        self.stdout.write(f"{trace.name}: {posted} rows sent, {len(done)} sent before, {malformed} malformed.")

    def _check(self, trace: Path) -> None:
        """Refuse another kind of file before a market is made for it."""
        with trace.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
            next(self._rows(lines), None)

    def _rows(self, lines: Iterator[str]) -> Iterator[TraceJob | Malformed]:
        try:
            yield from read(lines)
        except InvalidField as error:
            raise DemoError(f"The trace cannot be read: {error}") from None

    def _greet(
        self, base: str, scenarios: Sequence[Scenario], markets: dict[str, Market], known: dict[str, str], *, once: bool
    ) -> None:
        if once:
            for scenario in scenarios:
                self.stdout.write(f"Serving {base}/markets/{scenario.name}/ for {scenario.title}")
            return
        login = json.dumps({"username": "bidder", "password": known["bidder"]})
        rows = "\n".join(f"  {base}/markets/{one.name}/   {one.title}" for one in scenarios)
        self.stdout.write(GREETING.format(rows=rows, base=base, login=login, **known))
        for scenario in scenarios:
            model = markets[scenario.name].cluster.profiles.values_list("name", flat=True).first()
            body = json.dumps({"model": model, "epochs": 30, **scenario.value})
            self.stdout.write(BY_HAND.format(base=base, name=scenario.name, body=body))
        self.stdout.write(FAREWELL)

    def _conclude(self, done: Sequence[tuple[Market, Tally]]) -> None:
        problems = []
        for market, tally in done:
            certificates.renew(market.pk)
            market.refresh_from_db()
            seen = market_readings.summary(market)
            self.stdout.write(f"{market.cluster.title}, {market.cluster.name}:")
            for label, value in _table(seen, tally):
                self.stdout.write(f"  {label:<22} {value:>14}")
            if tally.refused or seen.undecided:
                problems.append(
                    f"{market.cluster.name}: {len(tally.refused)} bids were refused and {seen.undecided} are undecided."
                )
        call_command("audit", stdout=self.stdout)
        if problems:
            raise CommandError(" ".join(problems))


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def _bids(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SHORTEST_SLOT_S <= seconds <= LONGEST_SLOT_S:
        raise ArgumentTypeError(
            f"expected a number of seconds from {SHORTEST_SLOT_S:g} to {LONGEST_SLOT_S:g}, got {text!r}"
        )
    return seconds


def _under(trace: Path) -> Scenario:
    """The market of DPS, for the jobs of a trace."""
    return replace(DPS, name=_slug(trace), title=f"Edge and cloud, under the trace {trace.stem}", note=TRACE_NOTE)


def _slug(trace: Path) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in trace.stem.lower())[:40].strip("-") or "trace"


def _sender(base: str, cluster: str, tokens: dict[str, str], *, wait_s: int) -> Callable[[Offer], None]:
    def send(offer: Offer) -> None:
        # By the key, not by a counter: a second try must come from the same bidder.
        number = int(offer.key.rsplit("-", 1)[1])
        owner = "bidder" if number % OWN_SHARE == 0 else world.OTHERS[number % len(world.OTHERS)]
        client.submit(base, cluster, offer, token=tokens[owner], wait_s=wait_s)

    return send


def _until_interrupted() -> None:
    while True:
        signal.pause()


def _table(seen: market_readings.Summary, tally: Tally) -> list[tuple[str, str]]:
    rows = [
        ("bids sent", str(tally.sent)),
        ("in the market", str(seen.submitted)),
        ("admitted", str(seen.admitted)),
        ("rejected", str(seen.rejected)),
        ("undecided", str(seen.undecided)),
        ("completed", str(seen.completed)),
        ("slots passed", str(seen.slot)),
        ("utilisation", f"{seen.utilisation:.1%}"),
    ]
    return rows + _money(seen) if POLICIES[seen.policy].objective is Objective.WELFARE else rows


def _money(seen: market_readings.Summary) -> list[tuple[str, str]]:
    bound = seen.bound
    return [
        # The demo draws the values of bids, also for a trace.
        ("welfare, synthetic", f"{seen.welfare:.2f}"),
        ("revenue", "-" if seen.revenue is None else f"{seen.revenue:.2f}"),
        ("upper bound", "-" if bound is None else f"{bound.value:.2f}"),
        ("which bound", "-" if bound is None else bound.get_kind_display()),
    ]
