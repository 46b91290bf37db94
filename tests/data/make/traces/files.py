"""Every sample, its note, and the record of what is in it."""

import json
import textwrap
from collections.abc import Iterator, Mapping

from tests.data.make.traces import clusters, gavel, philly
from tests.data.make.traces.sample import Sample

RECORD = "record.json"
README = "README.md"
NOTE = """# Samples of public trace formats

Every row of every file here is **synthetic**: in the publisher's format, made by `python -m tests.data.make`, none
taken from a published trace. The same command writes each file again, byte for byte, and a test says so
(`tests/cluster/traces/test_samples.py`). `record.json` says what is in each file as the script counted it while
it wrote the rows: tests compare what the readers find with it. Where the published traces are, and under which
licences, is said in `docs/users/traces.md`.

Of each odd line it is said what a reader has to find: the field that is wrong, or *read* where the line is a record.
"""


def all_samples() -> Iterator[Sample]:
    """Each file."""
    yield from philly.samples()
    yield from gavel.samples()
    yield from clusters.samples()


def note(samples: Mapping[str, Sample]) -> str:
    """What each file is."""
    parts = [NOTE]
    for sample in samples.values():
        read = f"Read as `{sample.format}`" if sample.format else "Of a format that is refused"
        about, *more = sample.about.split("\n")
        said = f"Synthetic rows in the format of {sample.imitates}. {read}. {about[0].upper()}{about[1:]}"
        lines = [f"## {sample.path}", textwrap.fill(said if more else f"{said}.", 120, break_on_hyphens=False), *more]
        parts.append("".join(f"{line}\n" for line in lines))
    return "\n".join(parts)


def contents() -> dict[str, bytes]:
    """The content of each file by its path in `tests/data/traces`."""
    samples = {sample.path: sample for sample in all_samples()}
    record = {path: sample.record() for path, sample in samples.items()}
    return {path: sample.content for path, sample in samples.items()} | {
        RECORD: (json.dumps(record, indent=1) + "\n").encode(),
        README: note(samples).encode(),
    }
