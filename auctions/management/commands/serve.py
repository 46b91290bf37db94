"""`manage.py serve`: pages and REST, and without a broker also the market's worker."""

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from socket import socket
from typing import IO, Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.models import F

from auctions.domain import waking
from auctions.kernels.warming import Warming, groups_of_open_markets
from auctions.models import PolicyVersion
from auctions.runtime import embedded, health, supervisor
from auctions.runtime.supervisor import Link
from cluster import memory
from cluster.addresses import port
from scheduling.kernels import needed_by
from scheduling.registry import POLICIES, make_policy
from web import connections, metrics, shutdown, tracing

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TICKS_OF_A_SECOND = 10


class Server(uvicorn.Server):
    """A server whose signals only stop it: uvicorn raises them again afterwards, before the worker could end."""

    async def on_tick(self, counter: int) -> bool:
        """Do what is to be done every tenth of a second; end late connections once a second."""
        if counter % TICKS_OF_A_SECOND == 0:
            connections.end_late(self.server_state.connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Stop, and notify waiting requests and streams.

        The handler of a signal must not do it: a second signal could come while the first one holds the event's lock.
        """
        shutdown.begun.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM while the block runs; one that this process ignores stays ignored."""
        heeded = [sig for sig in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(sig) != signal.SIG_IGN]
        before = {sig: signal.signal(sig, self.handle_exit) for sig in heeded}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


class Command(BaseCommand):
    """Serve until SIGINT or SIGTERM; both end every process."""

    help = "Serve pages and REST; without REDIS_URL, a second process decides bids."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the address and the port."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=port, default=8000)
        parser.add_argument(
            "--wait",
            nargs="+",
            metavar="POLICY",
            choices=sorted(POLICIES),
            help="load what these policies need, which the parent compiles; serve after a line on standard input",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the processes."""
        if not settings.HAS_OWN_KEY and options["host"] not in LOOPBACK:
            raise CommandError(
                f"--host: expected this machine unless SHADOWPRICE_SECRET_KEY is set, got {options['host']}"
            )
        if not options["wait"]:  # with it, the database may be set up later
            _check_policies()
        if not settings.EMBEDDED:
            self._serve(options, sys.stdin)
            return
        metrics.forget()  # all processes of this installation are started here
        embedded.load()
        connection.close()
        # A process that is forked gets another standard input.
        with os.fdopen(os.dup(0)) if options["wait"] else open(os.devnull) as line:
            supervisor.run(partial(self._serve_or_exit, options, line), embedded.work)

    def _serve_or_exit(self, options: dict[str, Any], line: IO[str], link: Link) -> None:
        try:
            self._serve(options, line, link)
        except CommandError as error:
            sys.exit(f"CommandError: {error}")

    def _serve(self, options: dict[str, Any], line: IO[str], link: Link | None = None) -> None:
        """Run uvicorn in the main thread, which is where signals arrive; `link` leads to this server's own worker.

        With `--wait` it begins after a line from `line`.
        """
        memory.share_between_threads()
        server = Server(
            uvicorn.Config(
                "config.asgi:application",
                host=options["host"],
                port=options["port"],
                log_level="warning",
                log_config=None,  # its lines have the form of all others
                lifespan="off",
                http=connections.Connection,
                ws="none",  # a connection that is upgraded would have no limits
                timeout_keep_alive=settings.IDLE_S,
                # Proxy headers are trusted by default on local connections, where any process could state any address.
                proxy_headers=bool(settings.PROXIES),
                forwarded_allow_ips=settings.PROXIES,
                timeout_graceful_shutdown=3,  # waiting requests and streams end sooner by themselves
            )
        )
        # WhiteNoise has no asynchronous files: Django reads one in a thread, which is well, and says so at each start.
        warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
        with closing(Warming()) as warm:
            if options["wait"]:
                groups = (group for name in options["wait"] for group in needed_by(make_policy(name, {})))
                warm.ask(groups, follows=True)
                if not _should_serve(line):
                    return
            # Pages are up at once; each market decides once its kernels are here.
            warm.ask(groups_of_open_markets())
            connection.close()  # the main thread reads nothing more
            if link is not None:
                waking.carry, health.worker_is_silent = link.wake, link.is_silent
                link.open()
            metrics.begin_at_zero()
            try:
                server.run()
            finally:
                tracing.end()
        if not server.started:
            raise CommandError(f"cannot listen on {options['host']}:{options['port']}")


def _check_policies() -> None:
    """Refuse to start if a market has a policy that this version does not have: none of its pages could be shown."""
    chosen = PolicyVersion.objects.filter(number=F("market__policy_number")).exclude(name__in=list(POLICIES))
    wrong = [f"{name!r} in {market}" for market, name in chosen.values_list("market__cluster__name", "name")]
    if wrong:
        raise CommandError(f"markets: expected policies of this version, got {', '.join(sorted(wrong))}")


def _should_serve(line: IO[str]) -> bool:
    """Wait for a line; return False if the process that sets up the database ends without one, or ends this process."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return bool(line.readline())
    except KeyboardInterrupt:
        return False
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
