"""Parts of logs for readers, whatever programs write."""

from pathlib import Path

import pytest

from execution import logs
from execution.engines.files import Logs

KEY = "abc-g0-w0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "live" / KEY
    folder.mkdir(parents=True)
    return folder


def logs_with(folder: Path, output: bytes) -> Logs:
    (folder / f"log.{0:020}").write_bytes(output)
    return Logs(folder.parent.parent)


def test_a_sequence_that_does_not_end_hides_no_other_line() -> None:
    assert logs.shown(b"one\n\x1b]0;a title\nloss 0.5\n\x1b[31\nlast\n").split("\n") == [
        "one",
        "",
        "loss 0.5",
        "\N{REPLACEMENT CHARACTER}[31",
        "last",
        "",
    ]


def test_the_output_before_a_line_that_is_longer_than_a_part_can_be_reached(folder: Path) -> None:
    output = b"first\n" + b"x" * (2 * logs.BLOCK) + b"\n"
    read, until, texts = logs_with(folder, output), None, list[str]()
    for _ in range(4):
        part = logs.part_before(read, KEY, until)
        texts.insert(0, part.text)
        until = part.begin
    assert ("".join(texts), until) == (output.decode(), 0)


def test_a_search_does_not_look_at_each_line_of_parts_without_the_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, looked = logs_with(folder, b"\n" * (4 * logs.BLOCK) + b"\nfound\nlast"), list[int]()
    shown = logs.shown

    def counted(data: bytes) -> str:
        looked.append(len(data))
        return shown(data)

    monkeypatch.setattr(logs, "shown", counted)
    assert logs.found(read, KEY, "FOUND") == (["found"], False)
    assert len(looked) <= 6, "it is made readable part by part, not line by line"


def test_of_a_long_line_that_is_found_the_part_around_the_text_is_returned(folder: Path) -> None:
    read = logs_with(folder, b"a" * 500_000 + b"Needle" + b"b" * 500_000 + b"\n" + b"needle " * 500)
    first, second = logs.found(read, KEY, "needle")[0]
    assert first == f"…{'a' * logs.BEFORE_TEXT}Needle{'b' * (logs.LONGEST_FOUND - logs.BEFORE_TEXT - 6)}…"
    assert second == f"{('needle ' * 500)[: logs.LONGEST_FOUND]}…"


def test_a_long_line_is_returned_from_its_begin_if_the_text_is_found_only_in_another_spelling(folder: Path) -> None:
    read = logs_with(folder, ("x" * 2_000 + "Maße").encode())
    assert logs.found(read, KEY, "MASSE") == ([f"{'x' * logs.LONGEST_FOUND}…"], False)
