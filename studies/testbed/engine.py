"""The engine `local`, on servers that are control groups and network namespaces."""

from dataclasses import replace
from pathlib import Path

from execution.engines.base import EngineError, Start
from execution.engines.local import LocalEngine
from studies.testbed.groups import NoGroups
from studies.testbed.servers import SERVERS, Servers


class ConfinedEngine(LocalEngine):
    """Starts each process in a control group of its own and in the network of its server."""

    def __init__(self, root: Path, servers: Servers) -> None:
        super().__init__(root, SERVERS)
        self._confined_by = servers
        self._server_of: dict[str, str] = {}

    def launch(self, start: Start) -> None:
        """Start a process; see `Engine`."""
        try:
            confined = replace(start, confinement=self._confined_by.confine(start))
        except NoGroups as error:
            raise EngineError(str(error)) from None
        self._server_of[start.key] = start.server
        super().launch(confined)

    def retire(self, key: str) -> None:
        """List a process that ended no longer; see `Engine`."""
        super().retire(key)
        if not self.lives(key) and key in self._server_of:
            self._confined_by.forget(self._server_of.pop(key), key)
