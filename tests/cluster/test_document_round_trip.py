"""Any document the import takes comes out the same, through the functions and through the commands."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cluster.documents import document_text, import_cluster, read_document
from cluster.models import Cluster
from demo.clusters import edge_cloud_document
from scheduling.model.errors import InvalidField
from tests.draws import rounds

pytestmark = pytest.mark.django_db

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
SECONDS = st.floats(0, 1e9) | st.integers(0, 10**9)
MBPS = st.integers(1, 10**9) | st.decimals(1, 10**6, places=4).map(float)


def named(names: list[str], values: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    if not names:
        return st.just({})
    return st.dictionaries(st.sampled_from(names), values, min_size=least)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    def some(least: int = 0) -> list[str]:
        return draw(st.lists(NAMES, unique=True, min_size=least, max_size=4))

    resources = some(1)
    types = {key: some() for key in ("worker_types", "ps_types")}

    def machine(name: str) -> dict[str, Any]:
        demand = draw(named(resources, st.integers(1, 10**6), least=1))
        return {"name": name, "bandwidth_mbps": draw(MBPS), "demand": demand}

    return {
        "name": draw(st.from_regex(r"[A-Za-z0-9_-]{1,9}", fullmatch=True)),
        "title": draw(TEXTS),
        "note": draw(TEXTS),
        "epoch": draw(st.sampled_from(["2026-01-05T00:00:00Z", "1970-01-02T03:04:05.000006+05:30"])),
        "slot_seconds": draw(st.integers(1, 10**9)),
        "horizon_slots": draw(st.integers(1, 10**4)),
        "clock": {"kind": draw(st.sampled_from(["real", "virtual"])), "speed": draw(st.floats(1e-6, 1e5))},
        "resources": [{"name": name, "unit": draw(TEXTS)} for name in resources],
        **{key: [machine(name) for name in names] for key, names in types.items()},
        "servers": [
            {
                "name": name,
                "kind": draw(st.sampled_from(["edge", "cloud"])),
                "upload_delay_s": draw(SECONDS),
                **({"storage_mb": draw(st.floats(0, 1e9))} if draw(st.booleans()) else {}),
                "capacity": draw(named(resources, st.integers(0, 10**6))),
            }
            for name in some()
        ],
        "models": [
            {
                "name": name,
                "gradient_mb": draw(st.floats(0, 1e9)),
                "chunks": draw(st.integers(1, 10**4)),
                "minibatches": draw(st.integers(1, 10**6)),
                "worker_step_s": draw(named(types["worker_types"], SECONDS)),
                "ps_step_s": draw(named(types["ps_types"], SECONDS)),
            }
            for name in some()
        ],
    }


@settings(max_examples=rounds(20))
@given(document=documents(), other=documents())
def test_export_import_export_gives_the_same_bytes(document: dict[str, Any], other: dict[str, Any]) -> None:
    Cluster.objects.all().delete()
    first = document_text(import_cluster(document))
    # Through another cluster of that name: nothing of it may stay.
    import_cluster({**other, "name": document["name"]})
    import_cluster(read_document(first))
    assert document_text(Cluster.objects.get(name=document["name"])) == first


@settings(max_examples=rounds(33))
@given(
    path=st.sampled_from(
        [(key,) for key in ("name", "title", "note", "epoch", "slot_seconds", "horizon_slots", "clock", "resources")]
        + [("servers",), ("models",), ("servers", 0, "name"), ("servers", 0, "capacity", "ps-1"), ("clock", "speed")]
        + [("worker_types", 0, "bandwidth_mbps"), ("models", 0, "gradient_mb"), ("models", 0, "worker_step_s")]
    ),
    value=st.none()
    | st.booleans()
    | st.sampled_from([-1, -0.5, float("nan"), float("inf"), 10**30, 1e300, "", "\0", "x" * 20_000, "\ud800"])
    | st.lists(st.none(), min_size=1)
    | st.dictionaries(st.text(max_size=3), st.none(), min_size=1),
)
def test_nonsense_is_refused_by_the_name_of_its_field(path: tuple[Any, ...], value: Any) -> None:
    document = edge_cloud_document(np.random.default_rng(1), name="lab", edge_servers=1, types=1)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    name = ".".join(map(str, path)).replace(".0", "[0]")
    assume(path != ("note",) or value != "")
    with pytest.raises(InvalidField) as caught:
        import_cluster(document)
    assert caught.value.field.startswith(name)
    assert not Cluster.objects.exists()


def test_the_commands_copy_a_cluster(tmp_path: Path) -> None:
    cluster = import_cluster(edge_cloud_document(np.random.default_rng(1), name="lab", edge_servers=1, types=1))
    text = document_text(cluster)
    out = io.StringIO()
    call_command("cluster_export", "lab", stdout=out)
    assert out.getvalue() == text
    (tmp_path / "lab.json").write_text(text)
    cluster.delete()
    call_command("cluster_import", str(tmp_path / "lab.json"), stdout=io.StringIO())
    assert document_text(Cluster.objects.get()) == text


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "expected JSON"), ("{}", "name: missing"), (json.dumps({"name": "x", "surprise": 1}), "missing")],
)
def test_the_import_command_says_what_is_wrong_in_one_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(CommandError, match=words) as caught:
        call_command("cluster_import", str(tmp_path / "x.json"))
    assert "\n" not in str(caught.value)


def test_an_unknown_cluster_or_file_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"name: expected a cluster \(none\), got 'nowhere'"):
        call_command("cluster_export", "nowhere")
    with pytest.raises(CommandError, match="No such file"):
        call_command("cluster_import", str(tmp_path / "nowhere.json"))
