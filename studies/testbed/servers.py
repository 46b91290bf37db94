"""The servers of the testbed: each a control group and a network namespace, if this machine allows it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from execution.engines.base import Confinement, Start
from studies.testbed import networks
from studies.testbed.groups import Groups, Limits, NoGroups
from studies.testbed.networks import NoNetworks

WORKER_SERVERS: Final = ("edge-0", "edge-1", "edge-2")
PS_SERVER: Final = "store"
SERVERS: Final = (*WORKER_SERVERS, PS_SERVER)
PROCESSORS: Final[Mapping[str, float]] = dict.fromkeys(WORKER_SERVERS, 0.42) | {PS_SERVER: 0.26}
"""Processors of each server: of two cores together 1.52, which leaves the rest to the market and the executor."""
TYPES: Final[Mapping[str, float]] = {"large": 0.21, "small": 0.14}
"""Processors of each worker type. Parameter servers share those of their server."""
LINKS_MBPS: Final[Mapping[str, float]] = dict.fromkeys(WORKER_SERVERS, 100.0) | {PS_SERVER: 300.0}
"""Bandwidth of each server's link, in each direction."""
MARKET: Final = "market"
"""Group of this process, which is the market and the executor, and of the shims."""
MEMORY_MB: Final = 2_000
PROCESSES: Final = 200


@dataclass(frozen=True)
class Servers:
    """The servers as they could be made."""

    prefix: str
    groups: Groups | None
    has_networks: bool
    words: str
    """Description of them, and of what was not possible, in words."""

    def addresses(self) -> dict[str, str]:
        """Return the address of each server; empty if they are all this machine."""
        return {name: networks.address_of(i) for i, name in enumerate(SERVERS)} if self.has_networks else {}

    def confine(self, start: Start) -> Confinement:
        """Make the control group of a process, and return where it runs."""
        paths: tuple[Path, ...] = ()
        if self.groups is not None:
            paths = self.groups.make(self._group(start.server, start.key), Limits(TYPES.get(start.machine_type)))
        return Confinement(networks.file_of(self.prefix, start.server) if self.has_networks else None, paths)

    def forget(self, server: str, key: str) -> None:
        """Remove the control group of a process that has ended."""
        if self.groups is not None:
            self.groups.discard(self._group(server, key))

    def _group(self, server: str, key: str) -> str:
        return f"{self.prefix}/{server}/{key}"


def prefix_of(folder: Path) -> str:
    """Return the first part of the names of groups and namespaces; installations in other folders have others."""
    return f"testbed-{sha256(str(folder.resolve()).encode()).hexdigest()[:6]}"


@contextmanager
def made(prefix: str) -> Iterator[Servers]:
    """Make the servers for the block, after what an earlier process left is removed; afterwards nothing is left."""
    groups, problem = _grouped(prefix)
    problems = [problem] if problem else []
    try:
        networks.remove(prefix)
        try:
            networks.make(prefix, LINKS_MBPS)
            has_networks = True
        except NoNetworks as error:
            networks.remove(prefix)
            has_networks = False
            problems.append(str(error))
        yield Servers(prefix, groups, has_networks, _words(groups, has_networks, problems))
    finally:
        if groups is not None:
            groups.leave()
            groups.remove(prefix)
        networks.remove(prefix)


def _grouped(prefix: str) -> tuple[Groups | None, str]:
    """Make all groups and enter that of the market; return a problem instead if that is not possible."""
    try:
        groups = Groups.here()
        groups.remove(prefix)
    except NoGroups as error:
        return None, str(error)
    try:
        _make_groups(groups, prefix)
    except NoGroups as error:
        with suppress(NoGroups):  # it need not have been moved
            groups.leave()
        groups.remove(prefix)
        return None, str(error)
    return groups, ""


def _make_groups(groups: Groups, prefix: str) -> None:
    groups.make(prefix, Limits(), divided=True)
    for server, processors in PROCESSORS.items():
        groups.make(f"{prefix}/{server}", Limits(processors, MEMORY_MB, PROCESSES), divided=True)
    groups.make(f"{prefix}/{MARKET}", Limits())
    groups.enter(f"{prefix}/{MARKET}")  # with the weight of the whole group, other load of the machine disturbs less


def _words(groups: Groups | None, has_networks: bool, problems: list[str]) -> str:
    if groups is None:
        first = "without control groups: a worker pauses instead, so that each sample takes its time"
    else:
        first = f"control groups of version {groups.version} limit processor time, memory and processes"
    second = "network namespaces with links of limited bandwidth" if has_networks else "one network, without limit"
    return f"{first}; {second}" + "".join(f" ({problem})" for problem in problems)
