"""Pages of what runs for a bid: its training, its loss, and the logs of its processes."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from auctions.domain.refunds import Refund
from auctions.engine import jobs
from auctions.models import Bid, BidState
from execution import logs
from execution.engines.files import Logs
from execution.models import Lease, Process, Program, Training, TrainingState
from execution.places import engine_root
from execution.records import files_of
from tests.auctions.worlds import SLOT_S, make_operator, make_user
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.thorough

SIX = "\x1b[31mred\x1b[0m <script>alert(1)</script>\n10 %\r20 %\r30 %\nturned \u202e\nStep 4\n"


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.fixture
def running(world: World, client: Client) -> Bid:
    """A bid of the signed-in user whose training has done 20 of 100 steps."""
    client.force_login(world.owner)
    bid = world.submit(steps=100)
    world.go(0.5 * SLOT_S, every=10)
    training = world.training(bid)
    generation = training.generations.get()
    lines = [json.dumps({"step": n, "loss": 10 / n, "seconds": 0.5}) + "\n" for n in range(1, 21)]
    files_of(training).progress(generation.number).write_text("".join(lines))
    (files_of(training).checkpoints(generation.number) / "step-20").mkdir()
    world.go(5)
    return bid


def test_a_job_whose_program_failed_was_not_ended_by_an_operator(running: Bid, client: Client) -> None:
    jobs.fail_job(running, "Worker 0 exited with code 1.", refund=Refund.NONE)
    page = client.get(f"/markets/lab/bids/{running.sequence}/").content.decode()
    assert "It ended before it was complete; its remaining slots were freed." in page
    assert "Worker 0 exited with code 1." in page
    assert "operator ended it" not in page


def test_a_job_is_complete_with_its_last_slot_however_far_its_training_came(
    running: Bid, world: World, client: Client
) -> None:
    world.go(SLOT_S * ((running.completion_slot or 0) + 1 - world.slot))
    page = client.get(f"/markets/lab/bids/{running.sequence}/").content.decode()
    assert "20% done: step 20 of 100." in page
    assert "Its last slot is over." in page


def write_log(process: Process, text: str, *, begin: int = 0) -> None:
    folder = engine_root("lab") / "live" / process.key
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"log.{begin:020}").write_bytes(text.encode())


def test_a_bid_that_names_no_program_says_so_where_the_cluster_executes(world: World, client: Client) -> None:
    client.force_login(world.owner)
    bid = world.submit()
    Bid.objects.filter(pk=bid.pk).update(body={**bid.body, "program": None}, program=None)
    assert "names no program" in client.get(f"/markets/lab/bids/{bid.sequence}/").content.decode()


def test_a_bid_waits_and_its_page_says_that_no_executor_is_active(world: World, client: Client) -> None:
    client.force_login(world.owner)
    bid = world.submit()
    assert "No executor is active" in client.get(f"/markets/lab/bids/{bid.sequence}/").content.decode()
    Lease.objects.create(name="executor", holder="one", fence=1, until=world.now + 10)
    assert "waits for its machines" in client.get(f"/markets/lab/bids/{bid.sequence}/").content.decode()


def test_the_page_shows_state_progress_generations_and_processes(running: Bid, client: Client) -> None:
    page = client.get(f"/markets/lab/bids/{running.sequence}/").content.decode()
    assert "Training</span>" in page
    assert '<progress max="100" value="20"' in page
    assert "step 20 of 100, loss 0.5" in page
    assert "the start" in page
    assert page.count("/training/logs/") == Process.objects.count()
    part = client.get(f"/markets/lab/bids/{running.sequence}/training/part")
    assert '<progress max="100" value="20"' in part.content.decode()
    again = client.get(
        f"/markets/lab/bids/{running.sequence}/training/part", headers={"if-none-match": part.headers["ETag"]}
    )
    assert again.status_code == 304


def test_the_loss_is_a_curve_and_a_table(running: Bid, client: Client) -> None:
    drawn = client.get(f"/markets/lab/bids/{running.sequence}/training/loss.json").json()
    assert drawn["data"][0]["x"] == list(range(1, 21))
    assert drawn["data"][0]["y"][0] == 10
    rows = client.get(f"/markets/lab/bids/{running.sequence}/training/loss.csv").content.decode().splitlines()
    assert rows[0] == "generation,step,loss,seconds,reported_utc"
    assert rows[20].startswith("0,20,0.5,0.5,")


def test_what_ran_is_drawn_beside_what_was_promised(running: Bid, world: World, client: Client) -> None:
    world.go(4 * SLOT_S, every=SLOT_S / 2)
    address = f"/markets/lab/bids/{running.sequence}/schedule"
    names = [trace["name"] for trace in client.get(f"{address}.json").json()["data"]]
    assert {"promised (pale)", "what ran"} <= set(names)
    rows = list(csv.DictReader(client.get(f"{address}.csv").content.decode().splitlines()))
    ran = [row for row in rows if row["state"] == "ran"]
    assert sum(int(row["count"]) for row in ran) == Process.objects.count()
    for row in ran:
        assert 0 <= float(row["from_slot"]) < float(row["to_slot"]) <= 1.0, "it ran within its only slot"


def test_a_job_stopped_at_the_end_of_its_promise_leads_to_a_form_for_the_rest(
    running: Bid, world: World, client: Client
) -> None:
    world.go(4 * SLOT_S, every=SLOT_S / 2)
    assert Training.objects.get().state == TrainingState.STOPPED
    page = client.get(f"/markets/lab/bids/{running.sequence}/").content.decode()
    assert "20 % done: bid for the rest" in page
    assert f"/markets/lab/submit/?from={running.sequence}&amp;continue=1" in page
    assert "resumes from the checkpoint of step 20" in page
    form = client.get(f"/markets/lab/submit/?from={running.sequence}&continue=1").content.decode()
    assert 'value="train" selected' in form
    assert 'name="arguments" value="--fast"' in form
    assert 'name="steps" value="100"' in form
    assert f'name="continues" value="{running.sequence}"' in form


def test_the_page_of_a_bid_for_the_rest_leads_to_the_first_one(running: Bid, world: World, client: Client) -> None:
    world.go(4 * SLOT_S, every=SLOT_S / 2)
    form = {"epochs": 8, "form": "constant", "value": 100, "model": "ResNet-50", "program": "train", "steps": 100}
    wrong = client.post("/markets/lab/submit/", {**form, "continues": 99})
    assert "expected the number of an earlier bid of yours that was run, got 99" in wrong.content.decode()
    client.post("/markets/lab/submit/", {**form, "continues": running.sequence})
    rest = Bid.objects.latest("sequence")
    world.go(2.2 * SLOT_S)
    page = client.get(f"/markets/lab/bids/{rest.sequence}/").content.decode()
    assert f'<a href="/markets/lab/bids/{running.sequence}/">bid {running.sequence}</a>' in page
    assert "<td>step 20</td>" in page
    assert '<progress max="100" value="20"' in page


def test_a_program_that_is_closed_stays_in_the_form_of_a_similar_bid(running: Bid, client: Client) -> None:
    Program.objects.update(is_open=False)
    form = client.get(f"/markets/lab/submit/?from={running.sequence}").content.decode()
    assert "&quot;name&quot;: &quot;train&quot;" in form


def test_a_bid_names_a_program_in_the_form(world: World, client: Client) -> None:
    client.force_login(world.owner)
    form = {"epochs": 1, "form": "constant", "value": 100, "model": "ResNet-50", "program": "train", "steps": 50}
    wrong = client.post("/markets/lab/submit/", {**form, "arguments": "'"})
    assert "quotes that are closed" in wrong.content.decode()
    assert list(client.post("/markets/lab/submit/", {**form, "arguments": "a" * 1_001}).context["form"].errors) == [
        "arguments"
    ]
    idle = client.post("/markets/lab/submit/", {**form, "program": "", "arguments": "--name x"})
    assert "since arguments and steps are stated" in " ".join(idle.context["form"].errors["program"])
    assert not Bid.objects.exists()
    client.post("/markets/lab/submit/", {**form, "arguments": "--name 'two words'"})
    stored = {"name": "train", "arguments": ["--name", "two words"], "steps": 50}
    assert Bid.objects.get().body["program"] == stored


def test_an_operator_completes_a_job_early_and_nobody_else(running: Bid, client: Client) -> None:
    address = f"/markets/lab/bids/{running.sequence}/complete/"
    assert client.post(address).status_code == 403
    client.force_login(make_operator())
    client.post(address)
    running.refresh_from_db()
    assert running.state == BidState.COMPLETED


def test_a_log_is_escaped_and_searched_and_downloaded(running: Bid, client: Client) -> None:
    process = Process.objects.order_by("pk")[0]
    write_log(process, SIX)
    address = f"/markets/lab/bids/{running.sequence}/training/logs/{process.key}/"
    page = client.get(address).content.decode()
    assert "red &lt;script&gt;alert(1)" in page
    assert "\n30 %\nturned \N{REPLACEMENT CHARACTER}\n" in page
    assert "<mark>step</mark>".casefold() in client.get(f"{address}?search=STEP").content.decode().casefold()
    only = client.get(f"{address}?search=STEP&only=on").content.decode()
    assert "1 matching line<" in only
    assert "alert" not in only
    assert client.get(f"{address}log.txt").content == SIX.encode()
    assert client.get(f"{address}?until=x").status_code == 404
    part = client.get(f"{address}lines?offset=0").json()
    assert part["end"] == part["size"] == len(SIX.encode())


def test_what_was_removed_of_a_log_is_said(running: Bid, client: Client) -> None:
    process = Process.objects.order_by("pk")[0]
    write_log(process, "kept\n", begin=1000)
    page = client.get(f"/markets/lab/bids/{running.sequence}/training/logs/{process.key}/").content.decode()
    assert "the first 1,000 bytes" in page or "the first 1000 bytes" in page


def test_a_training_is_not_there_for_other_bidders_and_is_for_operators(running: Bid, client: Client) -> None:
    key = Process.objects.order_by("pk")[0].key
    parts = ("part", "version", "loss.json", "loss.csv", *(f"logs/{key}/{one}" for one in ("", "lines", "log.txt")))
    for who, status in ((make_user("bob"), 404), (make_operator(), 200)):
        client.force_login(who)
        for part in parts:
            assert client.get(f"/markets/lab/bids/{running.sequence}/training/{part}").status_code == status


def test_a_big_log_is_read_in_parts_of_whole_lines(running: Bid) -> None:
    process = Process.objects.order_by("pk")[0]
    text = "".join(f"line {n:06}\n" for n in range(20_000)) + "half"
    write_log(process, text)
    read = Logs(engine_root("lab"))
    newest = logs.part_before(read, process.key, None)
    assert newest.end - newest.begin <= logs.BLOCK
    assert newest.text.startswith("line ")
    assert (newest.text[-1:], newest.unfinished, newest.end) == ("\n", "half", len(text) - 4)
    offset, parts = 0, []
    while (part := logs.part_from(read, process.key, offset, is_over=False)).text:
        assert part.text.endswith("\n")
        parts.append(part.text)
        offset = part.end
    assert "".join(parts) == text.removesuffix("half")
    assert logs.part_from(read, process.key, offset, is_over=True).text == "half"
    assert logs.found(read, process.key, "LINE 019999") == (["line 019999"], False)
    lines, more = logs.found(read, process.key, "line")
    assert (len(lines), more) == (logs.MOST_FOUND, True)
