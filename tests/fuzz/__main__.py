"""`python -m tests.fuzz`: all phases of Schemathesis over a server with the rows of the demo, for each role.

There is a market in which bids compete, too; its time goes on meanwhile.

The roles are anonymous, a stranger (a user without rows), a bidder and the operator of the demo, and an administrator
of the service and of a team. For each one the examples of the document, the limits of every field, random requests and
sequences of requests are sent; an answer of 500 or more, or one that the document does not have, is a failure. The exit
status is 1 if there is one. With the same seed the same requests are drawn, but not answered by the same rows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.processes import (
    Process,
    answers,
    binary,
    end_on_sigterm,
    free_port,
    manage,
    python_env,
    run_python,
    wait_until,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROLES: Final = ("anonymous", "stranger", "bidder", "administrator", "operator")
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
COMPETING: Final = (40.0, 300.0, 90.0)
"""Values of bids that compete; a team has as many credits as the last one states."""
PHASES: Final = "examples,coverage,fuzzing,stateful"


def tokens() -> None:
    """Print a token for each role but the first one."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from django.contrib.auth.models import User

    from accounts.models import Role
    from accounts.teams import add_member, create_team
    from accounts.tokens import NewToken, issue

    named = {role: User.objects.get_or_create(username=role)[0] for role in ROLES[1:]}
    User.objects.filter(username="administrator").update(is_staff=True, is_superuser=True)
    team = create_team("vision", "Vision", administrator=named["administrator"])
    add_member(team, User.objects.get(username="ada"), Role.BIDDER)
    _compete([named["bidder"], User.objects.get(username="ada"), named["administrator"]])
    print(json.dumps({role: issue(user, NewToken("test")).text for role, user in named.items()}))


def _compete(bidders: list["User"]) -> None:
    """Open a market in which bids compete: some jobs run and some bids stand, those of a team with few credits, too."""
    from accounts.models import Team
    from auctions.domain.credits import millionths
    from auctions.engine import budgets, decision_queue
    from auctions.engine.markets import open_market
    from auctions.engine.submission import submit_bid
    from auctions.models import BudgetKind
    from cluster.clock import set_clock
    from tests.auctions.worlds import body, make_cluster

    cluster = make_cluster("compete", servers=2, horizon=40)
    market = open_market(cluster, policy="competition", parameters={})
    budgets.set_budget(Team.objects.get(name="vision"), period=BudgetKind.MONTH, amount=millionths(COMPETING[-1]))
    for number, value in enumerate(4 * COMPETING):
        sent = body(value, epochs=4 + number, standing=True)
        submit_bid(cluster=cluster, owner=bidders[number % len(bidders)], body=sent)
    decision_queue.process_pending(market.pk)
    set_clock(cluster, running=True, speed=20.0)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve the rows of the demo; yield the address, and the tokens of the roles."""
    env = python_env(folder, SHADOWPRICE_RATE="100000/second", SHADOWPRICE_PASSWORD_RATE="100000/second")
    manage("demo", "--once", env=env, seconds=900)
    found = json.loads(run_python("-c", "from tests.fuzz.__main__ import tokens; tokens()", env=env))
    port = free_port()
    command = [sys.executable, "manage.py", "serve", "--port", str(port)]
    server = Process(command, log=folder / "server.log", env=env)
    try:
        wait_until(lambda: answers(port), what="the server", every=0.5)
        yield f"http://127.0.0.1:{port}", found
    finally:
        server.end()


def fuzz(address: str, document: Path, token: str, *, examples: int, seed: int, report: Path) -> int:
    """Send all phases as one caller; return the exit status of Schemathesis."""
    command = [str(binary("schemathesis")), "run", str(document), "--url", address, "--phases", PHASES]
    command += ["--checks", ",".join(CHECKS), "--max-examples", str(examples), "--seed", str(seed)]
    command += [
        "--request-timeout",
        "60",
        "--continue-on-failure",
        "--warnings",
        "off",
        "--suppress-health-check",
        "all",
    ]
    command += ["--no-color", "--report", "junit", "--report-dir", str(report)]
    if token:
        command += ["--header", f"Authorization: Token {token}"]
    return subprocess.run(command, cwd=report).returncode


def main() -> int:
    """Serve, send and print; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=20, help="random requests of each operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES)
    asked = parser.parse_args()
    end_on_sigterm()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = folder / "openapi.yml"
        with served(folder) as (address, known):
            manage("spectacular", "--file", str(document), env=python_env(folder))
            failed = []
            for role in asked.roles:
                print(f"== {role}", flush=True)
                if fuzz(
                    address, document, known.get(role, ""), examples=asked.examples, seed=asked.seed, report=folder
                ):
                    failed.append(role)
        errors = [line for line in (folder / "server.log").read_text().splitlines() if " ERROR " in line]
    print(*errors[:20], sep="\n")
    print(f"roles with failures: {', '.join(failed) or 'none'}; {len(errors)} errors in the server's log")
    return 1 if failed or errors else 0


if __name__ == "__main__":
    sys.exit(main())
