"""Clients that leave before they are answered."""

import asyncio
from contextlib import closing
from functools import partial
from typing import Any

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from web.connections import Connection

LONG_S = 20.0
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize("listens", [True, False])
def test_a_client_that_sends_requests_ahead_and_leaves_is_no_error(
    caplog: pytest.LogCaptureFixture, listens: bool, answered: int
) -> None:
    """Whether the request that is being answered listens for the end of the connection, or is answered after it."""
    begun = 0

    async def run() -> None:
        state, loop, left = ServerState(), asyncio.get_running_loop(), asyncio.Event()

        async def answer(_scope: Any, receive: Any, send: Any) -> None:
            nonlocal begun
            begun += 1
            assert (await receive())["type"] == "http.request"
            if begun > answered:
                left.set()
                async with asyncio.timeout(LONG_S):
                    if listens:
                        assert (await receive())["type"] == "http.disconnect"
                    while state.connections:
                        await asyncio.sleep(0.01)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"{}"})

        config = uvicorn.Config(answer, log_config=None, lifespan="off", access_log=False)
        with closing(await loop.create_server(partial(Connection, config, state, {}), "127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write((answered + 2) * REQUEST)
            await left.wait()
            writer.close()
            await asyncio.gather(*state.tasks, return_exceptions=True)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    assert begun == answered + 1
    assert [record.getMessage() for record in caplog.records] == []
