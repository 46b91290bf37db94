"""An installation under load starts its services once."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.load import installation
from tests.load.installation import Installation

PID = 4242


def test_services_are_started_unless_they_run_wherever_their_logs_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = list[str]()

    class Started:
        """A process in name only."""

        pid = PID

        def __init__(self, _command: Sequence[str], *, log: Path, **_more: Any) -> None:
            started.append(log.stem)

        def end(self) -> None:
            """Nothing runs."""

    monkeypatch.setattr(installation, "Process", Started)
    monkeypatch.setattr(installation, "_answers", lambda *_: True)
    with ExitStack() as ends:
        found = Installation({"SHADOWPRICE_VAR": str(tmp_path)}, ("web",), ends, logs=tmp_path / "elsewhere")
        found.start()
        found.start()
    assert started == ["web"]
    assert found.running["web"].pid == PID
