"""`manage.py demo`: a market with a stream of bids, live until Ctrl-C."""

import signal
import textwrap
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from auctions import certificates, readings
from auctions.demo import client, jobs, philly, run, world
from auctions.demo.jobs import Offer
from auctions.demo.run import DemoError, Tally
from auctions.models import Bid, Market
from cluster.models import Cluster
from scheduling import kernels

SECONDS_PER_SLOT = 6.0
"""Wall time a slot of the live demo takes."""

SECONDS_PER_TRACED_SLOT = 1.0
"""The same under a trace: its first days are nearly empty."""

ONCE_BIDS = 60
WAIT_S = 30
OWN_SHARE = 3
"""Every third bid is the bidder's own."""


class Command(BaseCommand):
    """Set everything up, serve, and feed; a second run carries on."""

    help = "Run a demo market with a stream of bids through the REST API."

    def add_arguments(self, parser: CommandParser) -> None:
        """What the Makefile passes on."""
        parser.add_argument("--port", type=_port, help="default: the first free one from 8000")
        parser.add_argument("--seed", type=_seed, default=1)
        parser.add_argument("--trace", type=Path, help="a Philly CSV file to take jobs from")
        parser.add_argument("--once", action="store_true", help="send --bids bids, print a table, exit")
        parser.add_argument("--bids", type=int, default=ONCE_BIDS)
        parser.add_argument("--slot-takes", type=float, help="seconds a slot of the live demo takes")
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
        self.stdout.write("The demo starts anew with the next run.")

    def _demo(self, options: dict[str, Any]) -> None:
        trace: Path | None = options["trace"]
        if trace is not None and not trace.is_file():
            raise DemoError(f"There is no file {trace}.")
        if trace is not None:
            self._check(trace)
        port = run.choose_port(options["port"])
        call_command("migrate", verbosity=0)
        known = world.passwords(settings.VAR_DIR)
        world.people(known)
        market = _market(trace, options["seed"])
        from_s = run.settle_clock(market.cluster)
        offers = self._offers(market, trace, seed=options["seed"], from_s=from_s)
        tally = Tally()
        if options["once"]:
            kernels.warm_up()  # each bid is waited for
        with run.server(port, root=settings.BASE_DIR) as base:
            self._greet(base, market.cluster, known, once=options["once"])
            tokens = {name: client.token(base, username=name, password=known[name]) for name in ("bidder", "others")}
            send = _sender(base, market.cluster.name, tokens, wait_s=WAIT_S if options["once"] else 0)
            if options["once"]:
                run.feed_at_once(islice(offers, options["bids"]), market.cluster, send, tally, say=self.stdout.write)
            else:
                takes = options["slot_takes"] or (SECONDS_PER_SLOT if trace is None else SECONDS_PER_TRACED_SLOT)
                speed = market.cluster.slot_seconds / takes
                with run.time_passing(market.cluster, speed=speed):
                    run.feed(offers, market.cluster, send, tally, say=self.stdout.write)
                    self.stdout.write("The trace has ended; the market goes on until Ctrl-C.")
                    _until_interrupted()
        if options["once"]:
            self._conclude(market, tally)

    def _offers(self, market: Market, trace: Path | None, *, seed: int, from_s: float) -> Iterator[Offer]:
        """The stream from where an earlier run left it."""
        machines = jobs.machines_of(market.cluster)
        sent = Bid.objects.filter(market=market).exclude(idempotency_key=None)
        if trace is None:
            number = sent.filter(idempotency_key__startswith=f"demo-{seed}-").count() + 1
            yield from jobs.drawn(machines, seed=seed, number=number, from_s=from_s)
            return
        done = set(sent.values_list("idempotency_key", flat=True))
        posted = malformed = 0
        # The market's clock began with the trace's first row.
        with trace.open(newline="", encoding="utf-8", errors="replace") as lines:
            for row in self._rows(lines):
                if isinstance(row, philly.Malformed):
                    malformed += 1
                    self.stdout.write(f"{trace.name} line {row.line} is no job: {row.why}")
                    continue
                offer = philly.offer(row, machines, seed=seed, name=_slug(trace), from_s=0.0)
                if offer.key not in done:
                    posted += 1
                    yield offer
        self.stdout.write(f"{trace.name}: {posted} rows sent, {len(done)} sent before, {malformed} malformed.")

    def _check(self, trace: Path) -> None:
        """Refuse another kind of file before a market is made for it."""
        with trace.open(newline="", encoding="utf-8", errors="replace") as lines:
            next(self._rows(lines), None)

    def _rows(self, lines: Iterator[str]) -> Iterator[philly.Row | philly.Malformed]:
        try:
            yield from philly.read(lines)
        except ValueError as error:
            raise DemoError(f"The trace cannot be read: {error}") from None

    def _greet(self, base: str, cluster: Cluster, known: dict[str, str], *, once: bool) -> None:
        if once:
            self.stdout.write(f"Serving {base}/markets/{cluster.name}/ for {cluster.title}")
            return
        login = json_of(username="bidder", password=known["bidder"])
        model = cluster.profiles.values_list("name", flat=True).first()
        body = f'{{"model": "{model}", "epochs": 30, "utility": {{"form": "constant", "value": 500}}}}'
        self.stdout.write(
            textwrap.dedent(
                f"""
                The market is open at {base}/markets/{cluster.name}/

                  operator   {known["operator"]}   (sees all bids; admin at {base}/admin/)
                  bidder     {known["bidder"]}   (sees its own bids)

                Bid by hand:

                  TOKEN=$(curl -s {base}/api/v1/token -H 'Content-Type: application/json' -d '{login}' | cut -d'"' -f4)
                  curl -s {base}/api/v1/clusters/{cluster.name}/bids -H "Authorization: Token $TOKEN" \\
                    -H 'Content-Type: application/json' -H 'Prefer: wait=5' \\
                    -d '{body}'

                On a first run decisions begin when the algorithm is compiled, some 20 s from now.
                Ctrl-C ends it; the next run carries on. make demo-reset starts anew.
                """
            )
        )

    def _conclude(self, market: Market, tally: Tally) -> None:
        certificates.renew(market.pk)
        market.refresh_from_db()
        seen = readings.summary(market)
        for label, value in _table(seen, tally):
            self.stdout.write(f"  {label:<22} {value:>14}")
        call_command("audit", stdout=self.stdout)
        if tally.refused or seen.waiting:
            raise CommandError(f"{len(tally.refused)} bids were refused and {seen.waiting} are undecided.")


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 0 < number < 65536:
        raise ArgumentTypeError(f"expected a port from 1 to 65535, got {text!r}")
    return number


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def json_of(**fields: str) -> str:
    """A flat JSON object on one line."""
    return "{" + ", ".join(f'"{key}": "{value}"' for key, value in fields.items()) + "}"


def _market(trace: Path | None, seed: int) -> Market:
    if trace is None:
        return world.market_named("demo", note=world.DRAWN_NOTE, seed=seed)
    return world.market_named(
        _slug(trace), title=f"Edge and cloud, under the trace {trace.stem}", note=world.TRACE_NOTE, seed=seed
    )


def _slug(trace: Path) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in trace.stem.lower())[:40].strip("-") or "trace"


def _sender(base: str, cluster: str, tokens: dict[str, str], *, wait_s: int) -> Callable[[Offer], None]:
    def send(offer: Offer) -> None:
        # By the key, not by a counter: a second try must come from the same bidder.
        own = int(offer.key.rsplit("-", 1)[1]) % OWN_SHARE == 0
        client.submit(base, cluster, offer, token=tokens["bidder" if own else "others"], wait_s=wait_s)

    return send


def _until_interrupted() -> None:
    while True:
        signal.pause()


def _table(seen: readings.Summary, tally: Tally) -> list[tuple[str, str]]:
    bound = seen.bound
    return [
        ("bids sent", str(tally.sent)),
        ("in the market", str(seen.submitted)),
        ("admitted", str(seen.admitted)),
        ("rejected", str(seen.rejected)),
        ("waiting", str(seen.waiting)),
        ("completed", str(seen.completed)),
        ("slots passed", str(seen.slot)),
        ("welfare", f"{seen.welfare:.2f}"),
        ("revenue", f"{seen.revenue:.2f}"),
        ("upper bound", "-" if bound is None else f"{bound.value:.2f}"),
        ("which bound", "-" if bound is None else bound.kind.label),
        ("utilisation", f"{seen.utilisation:.1%}"),
    ]
