"""Network namespaces of servers that a switch joins, with limited bandwidth in both directions.

The switch is a bridge in a namespace of its own, so this machine's own network is not touched, and with the namespaces
everything is gone.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/run/netns")
BURST: Final = "64kb"
"""Data that a link lets through at once."""
LATENCY: Final = "400ms"
"""Longest wait of a packet; TCP slows down before."""


class NoNetworks(Exception):
    """Namespaces cannot be made here; the message says why."""


def file_of(prefix: str, server: str) -> Path:
    """Return the file of a server's namespace."""
    return FOLDER / f"{prefix}-{server}"


def address_of(number: int) -> str:
    """Return the address of the server of this number, from 0, in its own namespace."""
    return f"10.77.0.{number + 1}"


def make(prefix: str, links: Mapping[str, float]) -> None:
    """Make a namespace for each server, all at one switch, with the bandwidth of its link in Mbit/s.

    Raises
    ------
    NoNetworks
        If a tool is missing, or this process may not.
    """
    switch = f"{prefix}-switch"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise NoNetworks("expected the programs ip and tc (apt-get install iproute2), got none")
    _run("ip", "netns", "add", switch)
    _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
    _run("ip", "-n", switch, "link", "set", "bridge", "up")
    for number, (server, mbps) in enumerate(links.items()):
        space, port = f"{prefix}-{server}", f"port{number}"
        _run("ip", "netns", "add", space)
        _run("ip", "-n", space, "link", "set", "lo", "up")
        _run("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", "uplink", "netns", space)
        _run("ip", "-n", switch, "link", "set", port, "master", "bridge", "up")
        _run("ip", "-n", space, "address", "add", f"{address_of(number)}/24", "dev", "uplink")
        _run("ip", "-n", space, "link", "set", "uplink", "up")
        for where, device in ((space, "uplink"), (switch, port)):
            rate = ("rate", f"{mbps:g}mbit", "burst", BURST, "latency", LATENCY)
            _run("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", *rate)


def remove(prefix: str) -> None:
    """Remove all namespaces with this prefix; nothing if there are none."""
    for path in sorted(FOLDER.glob(f"{prefix}-*")):
        _run("ip", "netns", "delete", path.name)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 (names of this module)
    if done.returncode != 0:
        raise NoNetworks(f"expected `{' '.join(command)}` to succeed, got: {done.stderr.strip()}")
