"""Clients of the REST interface that submit bids at a given rate, or each one as soon as its last is answered."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from time import monotonic, time
from typing import Any, Final

from tests.load.world import World
from tests.processes import wait_until

MOST_CONNECTIONS: Final = 200
"""Largest number of connections at a time: bids beyond it wait at the client, and that counts."""
STORED: Final = (200, 201, 202)
READS_A_S: Final = 5.0
"""Requests for summaries, prices and quotes a second, while bids are sent at a rate."""


@dataclass
class Sent:
    """What clients sent and how it was answered."""

    label: str
    sent: dict[str, float] = field(default_factory=dict)
    """Time at which each stored bid was sent, or was due to be sent, seconds of the wall clock, by its number."""
    answer_s: list[float] = field(default_factory=list)
    read_s: list[float] = field(default_factory=list)
    """Times of the answers to summaries, prices and quotes, seconds."""
    refused: list[str] = field(default_factory=list)
    """Answers that are not what a stored bid gets."""


class Client:
    """One connection, kept between requests."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, token: str, key: str, body: Any, *, prefer: str = "") -> tuple[int, bytes]:
        """Send a bid; return status and body of the answer.

        A server may close a kept connection while the request is under way; its key lets it be sent again.
        """
        more = f"Idempotency-Key: {key}\r\n" + (f"Prefer: {prefer}\r\n" if prefer else "")
        return await self._ask("POST", path, token, more, json.dumps(body).encode())

    async def read(self, path: str, token: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request that stores nothing, with a body or without; return status and body of the answer."""
        if body is None:
            return await self._ask("GET", path, token, "", b"")
        return await self._ask("POST", path, token, "", json.dumps(body).encode())

    async def post_nothing(self, path: str, token: str) -> tuple[int, bytes]:
        """Send a request that has no body and changes something; return status and body of the answer."""
        return await self._ask("POST", path, token, "", b"")

    async def _ask(self, method: str, path: str, token: str, more: str, content: bytes) -> tuple[int, bytes]:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Token {token}\r\n{more}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        )
        request = f"{head}\r\n".encode() + content
        if self._streams is not None:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                return await _exchange(*self._streams, request)
        self.close()
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        return await _exchange(*self._streams, request)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin1").lower().split("\r\n")
    [length] = [int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")]
    return int(lines[0].split()[1]), await reader.readexactly(length)


def closed_loop(port: int, world: World, *, label: str, clients: int, seconds: float) -> Sent:
    """Let clients submit one bid after another for these seconds."""
    return asyncio.run(_closed_loop(port, world, Sent(label), clients, seconds))


def open_loop(port: int, world: World, *, label: str, rate: float, seconds: float) -> Sent:
    """Submit bids at equal intervals for these seconds, whether earlier ones are answered or not."""
    return asyncio.run(_open_loop(port, world, Sent(label), rate, seconds))


def bulk(port: int, world: World, *, label: str, sizes: Sequence[int]) -> Sent:
    """Submit bids in requests of these sizes, sent at once."""
    return asyncio.run(_bulk(port, world, Sent(label), sizes))


def wait_for_kernels(port: int, world: World) -> None:
    """Wait until all markets answer quotes: a process that still loads the kernels of a policy refuses them."""
    wait_until(lambda: asyncio.run(_quotes_answer(port, world)), what="quotes", every=0.5)


def read_each(port: int, world: World) -> list[float]:
    """Ask for summary, prices and a quote of each market once, as a page does that is opened; return the times, s."""
    sent = Sent("first")
    asyncio.run(_read(port, world, sent, range(3 * len(world.markets))))
    if sent.refused:
        raise RuntimeError(f"a read was refused: {sent.refused[0]}")
    return sent.read_s


async def _quotes_answer(port: int, world: World) -> bool:
    client, body = Client(port), world.body(0, "quote")
    addresses = [f"/api/v1/clusters/{market}/quotes" for market in world.markets]
    answers = [(await client.read(address, world.token(0), body))[0] for address in addresses]
    client.close()
    return all(status == 200 for status in answers)


async def _closed_loop(port: int, world: World, found: Sent, clients: int, seconds: float) -> Sent:
    until, numbers = monotonic() + seconds, count()

    async def run() -> None:
        client = Client(port)
        while monotonic() < until:
            await _submit(client, world, found, next(numbers), due=time())
        client.close()

    await asyncio.gather(*(run() for _ in range(clients)))
    return found


async def _open_loop(port: int, world: World, found: Sent, rate: float, seconds: float) -> Sent:
    free: asyncio.LifoQueue[Client] = asyncio.LifoQueue()
    for _ in range(MOST_CONNECTIONS):
        free.put_nowait(Client(port))

    async def run(number: int, due: float) -> None:
        client = await free.get()
        try:
            await _submit(client, world, found, number, due=due)
        finally:
            free.put_nowait(client)

    reads = asyncio.create_task(_read(port, world, found, count()))
    began, running = time(), set[asyncio.Task[None]]()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time()))
        task = asyncio.create_task(run(number, due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    reads.cancel()
    while not free.empty():
        free.get_nowait().close()
    return found


async def _read(port: int, world: World, found: Sent, numbers: Iterable[int]) -> None:
    """Ask for summary, prices and quotes of the markets in turns, until the numbers end or this is cancelled."""
    client, body = Client(port), world.body(0, found.label)
    try:
        for number in numbers:
            address = f"/api/v1/clusters/{world.market(number)}"
            asked = (("summary", None), ("prices", None), ("quotes", body))[number // len(world.markets) % 3]
            due = monotonic()
            status, answer = await client.read(f"{address}/{asked[0]}", world.token(number), asked[1])
            found.read_s.append(monotonic() - due)
            if status != 200:
                found.refused.append(f"{asked[0]}: {status} {answer.decode()[:200]}")
            await asyncio.sleep(1 / READS_A_S)
    finally:
        client.close()


async def _submit(client: Client, world: World, found: Sent, number: int, *, due: float) -> None:
    path, key = f"/api/v1/clusters/{world.market(number)}/bids", f"{found.label}-{number}"
    status, answer = await client.post(path, world.token(number), key, world.body(number, found.label))
    if status not in STORED:
        found.refused.append(f"{status} {answer.decode()[:200]}")
        return
    found.sent[str(number)] = due
    found.answer_s.append(time() - due)


async def _bulk(port: int, world: World, found: Sent, sizes: Sequence[int]) -> Sent:
    due, first = time(), 0

    async def run(numbers: range, token: str) -> None:
        client = Client(port)
        bodies = [world.body(number, found.label) for number in numbers]
        path = f"/api/v1/clusters/{world.markets[0]}/bids/bulk"
        status, answer = await client.post(path, token, f"{found.label}-{numbers.start}", {"bids": bodies})
        if status in STORED:
            found.sent.update(dict.fromkeys(map(str, numbers), due))
            found.answer_s.append(time() - due)
        else:
            found.refused.append(f"{status} {answer.decode()[:200]}")
        client.close()

    requests = []
    for size, token in zip(sizes, world.tokens, strict=False):
        requests.append(run(range(first, first + size), token))
        first += size
    await asyncio.gather(*requests)
    return found
