"""Clients of a storm: they send bids, each again with its key until it is answered, and remember the answers."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from typing import Any, Final

import numpy as np

from tests.load.client import STORED, Client

BULK: Final = 10
RECENT: Final = 40
"""Number of bids from which a client draws the one that it withdraws: the last ones."""
CLOSED: Final = b"takes no bids"
PAUSE_S: Final = 0.2
LONGEST_S: Final = 30.0
"""Time after which a client gives a request up, and sends it again."""
VALUES: Final = (0.5, 5.0, 40.0, 150.0, 600.0)


@dataclass
class Answered:
    """What clients know."""

    keys: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of the bids that were answered, by market and key."""
    withdrawn: list[tuple[str, int]] = field(default_factory=list)
    """Market and number of each bid whose withdrawal was answered."""
    wrong: list[str] = field(default_factory=list)
    """Answers that no client should get."""
    refused: Counter[int] = field(default_factory=Counter)
    """Other answers than those of stored bids, by status; 0 if there was no answer."""

    @property
    def bids(self) -> int:
        """Number of bids that were answered."""
        return sum(map(len, self.keys.values()))


class Clients:
    """Clients in a thread, until they are asked to stop and every request is answered."""

    def __init__(self, port: int, markets: Sequence[tuple[str, bool]], tokens: Sequence[str], *, seed: int) -> None:
        """Each market is a name, and whether its bids state values."""
        self.answered = Answered()
        self.markets = markets
        self._port, self._tokens, self._seed = port, tokens, seed
        self._stopping = False
        self._pause_s = 0.0
        self._thread = Thread(target=lambda: asyncio.run(self._run()), name="clients")

    def start(self, *, pause_s: float) -> None:
        """Start; each client pauses for this time after an answer, seconds."""
        self._pause_s = pause_s
        self._thread.start()

    def stop(self) -> None:
        """Send no further bids, and wait until every request is answered."""
        self._stopping = True
        self._thread.join()

    async def _run(self) -> None:
        await asyncio.gather(*(self._client(number, token) for number, token in enumerate(self._tokens)))

    async def _client(self, number: int, token: str) -> None:
        rng, sent = np.random.default_rng([self._seed, number]), 0
        mine: list[tuple[str, int]] = []
        while not self._stopping:
            market, states_value = self.markets[int(rng.integers(len(self.markets)))]
            key, path = f"{number}-{sent}", f"/api/v1/clusters/{market}/bids"
            sent += 1
            body: Any
            if rng.random() < 0.3:
                bids = [_body(rng, f"{key}/{i}", states_value=states_value) for i in range(BULK)]
                path, body = f"{path}/bulk", {"bids": bids}
            else:
                body = _body(rng, key, states_value=states_value)
            found = await self._until_answered(path, token, key, body)
            if rng.random() < 0.03:
                again = await self._until_answered(path, token, key, body)
                if again != found:
                    self.answered.wrong.append(f"{path} {key}: the numbers {found}, and then {again}")
            self.answered.keys[f"{market} {key}"] = found
            mine += [(market, one) for one in found]
            if mine and rng.random() < 0.2:
                await self._withdraw(token, mine[-1 - int(rng.integers(min(len(mine), RECENT)))])
            await asyncio.sleep(self._pause_s)

    async def _withdraw(self, token: str, bid: tuple[str, int]) -> None:
        """Withdraw a bid, if it is undecided or stands; a lost answer is not asked for again."""
        path, client = f"/api/v1/clusters/{bid[0]}/bids/{bid[1]}/withdraw", Client(self._port)
        status, answer = await _in_time(client, client.post_nothing(path, token))
        client.close()
        if status == 200:
            self.answered.withdrawn.append(bid)
        elif status not in (0, 409, 429) and status < 500:
            self.answered.wrong.append(f"{path}: {status} {answer[:200].decode(errors='replace')}")

    async def _until_answered(self, path: str, token: str, key: str, body: Any, *, prefer: str = "") -> list[int]:
        """Send a request until it is answered; return the numbers of its bids."""
        client = Client(self._port)
        while True:
            status, answer = await _in_time(client, client.post(path, token, key, body, prefer=prefer))
            if status in STORED:
                client.close()
                found = json.loads(answer)
                return [one["sequence"] for one in found.get("results", [found])]
            self.answered.refused[status] += 1
            is_closed = status == 409 and CLOSED in answer
            if status not in (0, 429) and status < 500 and not is_closed:
                self.answered.wrong.append(f"{path} {key}: {status} {answer[:200].decode(errors='replace')}")
                return []
            await asyncio.sleep(PAUSE_S)

    def wait_for_decisions(self, label: str, *, count: int) -> None:
        """Send single bids at once, each with a wait for its decision, until all are answered."""
        market, states_value = self.markets[0]
        rng = np.random.default_rng(self._seed)

        async def send(number: int) -> None:
            key, token = f"{label}-{number}", self._tokens[number % len(self._tokens)]
            body = _body(rng, key, states_value=states_value)
            path = f"/api/v1/clusters/{market}/bids"
            self.answered.keys[f"{market} {key}"] = await self._until_answered(path, token, key, body, prefer="wait=10")

        async def run() -> None:
            await asyncio.gather(*(send(number) for number in range(count)))

        asyncio.run(run())


async def _in_time(client: Client, asked: Awaitable[tuple[int, bytes]]) -> tuple[int, bytes]:
    """Return status and body; status 0 if there was no answer."""
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
        async with asyncio.timeout(LONGEST_S):
            return await asked
    client.close()
    return 0, b""


def _body(rng: np.random.Generator, label: str, *, states_value: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"model": "ResNet-50", "epochs": int(rng.integers(1, 7)), "label": label}
    value = float(rng.choice(VALUES))
    if not states_value:
        return found | {"weight": value}
    form, when = (("step", "deadline_s"), ("linear", "zero_at_s"))[int(rng.integers(2))]
    utility = {"form": form, "value": value, when: float(rng.integers(600, 2000))}
    return found | {"utility": utility, "standing": bool(rng.random() < 0.5)}


def slow_requests(port: int, token: str, path: str, *, count: int, seconds: float) -> None:
    """Open connections that send a request byte by byte, and leave in the middle of it."""

    async def crawl() -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Token {token}\r\n"
            until = monotonic() + seconds
            with closing(writer):
                for letter in head:
                    writer.write(letter.encode())
                    await writer.drain()
                    await asyncio.sleep(seconds / len(head))
                    if monotonic() > until:
                        break

    async def run() -> None:
        await asyncio.gather(*(crawl() for _ in range(count)))

    asyncio.run(run())
