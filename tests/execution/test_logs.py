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


@pytest.mark.parametrize("block", [5, 8, 100])
def test_a_search_finds_what_a_page_shows_of_a_sequence_that_does_not_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(logs, "BLOCK", block)
    output = b"one\n\x1b[31\ntwo\n"
    shown = "\N{REPLACEMENT CHARACTER}[31"
    assert logs.shown(output).split("\n") == ["one", shown, "two", ""]
    assert logs.found(logs_with(folder, output), KEY, "31") == ([shown], False)


def test_of_a_long_line_that_is_found_the_part_around_the_text_is_returned(folder: Path) -> None:
    read = logs_with(folder, b"a" * 500_000 + b"Needle" + b"b" * 500_000 + b"\n" + b"needle " * 500)
    first, second = logs.found(read, KEY, "needle")[0]
    assert first == f"…{'a' * logs.BEFORE_TEXT}Needle{'b' * (logs.LONGEST_FOUND - logs.BEFORE_TEXT - 6)}…"
    assert second == f"{('needle ' * 500)[: logs.LONGEST_FOUND]}…"


def test_a_long_line_is_returned_from_its_begin_if_the_text_is_found_only_in_another_spelling(folder: Path) -> None:
    read = logs_with(folder, ("x" * 2_000 + "Maße").encode())
    assert logs.found(read, KEY, "MASSE") == ([f"{'x' * logs.LONGEST_FOUND}…"], False)


BARS = (
    b"".join(b"\r%3d%% |" % n + "█".encode() * (n // 10) + b"|" for n in range(101)) + b"\ndone\n",
    b"".join(b"%d of 9\r" % n for n in range(10)) + b"\nnext",  # the carriage return comes last
    b"one\r\ntwo\r\r\n\r\nthree",
    b"\x1b[32m1%\x1b[0m\r\x1b[K2%\r\x1b[K\nlast",  # erased, and written again
    b"a\r" * 3_000 + b"\r" * 3_000 + b"\n\r\r\r",
    b"\xff\xfe\r\xe2\x96\r\xe2\x96\x88\r\n\x1b]0;title\r50%\r60%\n",
    "ä\rß\r€\r😀\rx".encode(),
)
"""Output with carriage returns. No line is longer than a part."""


def followed(read: Logs, folder: Path, output: bytes, step: int) -> str:
    """What a page shows that follows output that grows by `step` bytes, and the process ends."""
    offset, finished = 0, ""
    for at in range(step, len(output) + step, step):
        logs_with(folder, output[:at])
        part = logs.part_from(read, KEY, offset, is_over=False)
        assert part.begin == offset
        offset, finished = part.end, finished + part.text
        on_terminal = logs.shown(output[:at])
        if on_terminal[-1:] != "\N{REPLACEMENT CHARACTER}":  # the rest of a character or a sequence follows
            assert finished + part.unfinished == on_terminal
    return finished + logs.part_from(read, KEY, offset, is_over=True).text


@pytest.mark.parametrize("output", BARS)
@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_a_bar_that_grows_is_shown_as_a_terminal_shows_it(folder: Path, output: bytes, step: int) -> None:
    if step == 1:
        output = output[-500:]
    assert followed(logs_with(folder, b""), folder, output, step) == logs.shown(output)


def test_of_a_bar_the_newest_page_and_the_parts_that_follow_have_the_last_version_once(folder: Path) -> None:
    read = logs_with(folder, b"begin\n" + b"\r 10%" * 30_000)
    newest = logs.part_before(read, KEY, None)
    assert (newest.text, newest.unfinished, newest.end, newest.size) == ("", " 10%", 150_002, 150_006)
    logs_with(folder, b"begin\n" + b"\r 10%" * 30_000 + b"\r100%\nend\n")
    part = logs.part_from(read, KEY, newest.end, is_over=False)
    assert (part.text, part.unfinished, part.end) == ("100%\nend\n", "", part.size)


def test_a_bar_longer_than_a_part_is_read_in_parts_whose_text_is_the_line_at_its_end(folder: Path) -> None:
    read = logs_with(folder, b"begin\n" + "\r99% █".encode() * 40_000 + b"\r\nend\n")
    parts, offset = list[logs.Part](), 0
    while not parts or offset < parts[-1].size:
        parts.append(logs.part_from(read, KEY, offset, is_over=False))
        assert offset < parts[-1].end <= offset + logs.BLOCK
        offset = parts[-1].end
    assert "".join(part.text for part in parts) == "begin\n99% █\nend\n"
    assert logs.found(read, KEY, "99") == (["99% █"], False)
    assert b"".join(logs.blocks(read, KEY)).count(b"\r") == 40_001, "what is downloaded is what was written"


def test_carriage_returns_alone_end_no_reading(folder: Path) -> None:
    read = logs_with(folder, b"\r" * (3 * logs.BLOCK))
    offset = 0
    for _ in range(3):
        part = logs.part_from(read, KEY, offset, is_over=False)
        assert (part.text, part.unfinished, part.end) == ("", "", offset + logs.BLOCK)
        offset = part.end
    assert logs.part_before(read, KEY, None).unfinished == ""
    assert logs.found(read, KEY, "x") == ([], False)


@pytest.mark.parametrize("version", [b"\r", b"\r\x1b[K", b"\r\x1b]0;title\x07", b"\r10%"])
def test_a_search_looks_at_the_versions_of_a_long_line_a_few_times_and_not_with_each_block(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: bytes
) -> None:
    output = b"first" + version * (2 * logs.LONGEST_LINE // len(version)) + b"\rlast\n"
    read, replaced, looked = logs_with(folder, output), logs._replaced, list[int]()

    def counted(line: bytes) -> int:
        looked.append(len(line))
        return replaced(line)

    monkeypatch.setattr(logs, "_replaced", counted)
    assert logs.found(read, KEY, "LAST") == (["last"], False)
    assert sum(looked) <= 2 * len(output)


def test_no_character_is_cut_where_a_part_of_a_long_line_ends(folder: Path) -> None:
    text = "x" + "€" * logs.BLOCK
    read, offset, texts = logs_with(folder, text.encode()), 0, list[str]()
    while offset < len(text.encode()):
        part = logs.part_from(read, KEY, offset, is_over=True)
        offset, texts = part.end, [*texts, part.text]
    assert "".join(texts) == text
    texts, until = [], None
    while until != 0:
        part = logs.part_before(read, KEY, until)
        texts.insert(0, part.text + part.unfinished)
        until = part.begin
    assert "".join(texts) == text
