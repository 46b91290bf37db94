"""Kernels on their way into a server: which come first, who waits for which, and what is said meanwhile."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from auctions import tasks
from auctions.domain.errors import NotReady
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market, set_open
from auctions.engine.policies import change_policy
from auctions.engine.servers import lose_server
from auctions.engine.submission import quote, submit_bid
from auctions.kernels import compiling, warming
from auctions.models import Bid, BidState, Market, Outage, PolicyVersion
from cluster import memory, priority
from cluster.database.waiting import WaitsInTransaction
from config.kernels import beside_sources
from scheduling import kernels
from scheduling.registry import POLICIES
from tests.auctions.worlds import body, make_cluster, make_operator, set_time, submit

pytestmark = pytest.mark.thorough

Start = Callable[..., warming.Warming]


@pytest.fixture
def queued(market: Market) -> Market:
    """A second market, with queues: other kernels than the first one's."""
    return open_market(make_cluster("queued"), policy="preemptive")


@pytest.fixture
def same_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process keep its priority where it does as a worker that starts: it could not go back."""
    for name in ("give_way", "let_answers_pass"):
        monkeypatch.setattr(priority, name, lambda: None)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a warm-up whose processes report what is given, and then continue without a report.

    Kernels count as loaded at once: how long a slow machine takes to compile them is not what these tests are about.
    """
    monkeypatch.setattr(kernels, "warm_up", lambda *groups: None)
    begun: list[warming.Warming] = []

    def begin(*groups: kernels.Group, done: tuple[str, ...] = (), ends: bool = False) -> warming.Warming:
        lines = "".join(f'echo \'{{"part": "{part}"}}\';' for part in done)
        script = f"{lines} {'true' if ends else 'exec sleep 60'}"
        monkeypatch.setattr(compiling, "command", lambda parts: ("sh", "-c", script))
        begun.append(warming.Warming(groups))
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


def wait_until(holds: Callable[[], bool]) -> None:
    end = monotonic() + 20
    while not holds():
        assert monotonic() < end
        sleep(0.02)


def queued_body() -> dict[str, object]:
    return {"model": "ResNet-50", "epochs": 1}


def test_kernels_of_open_markets_come_in_the_order_of_the_markets(queued: Market) -> None:
    set_open(open_market(make_cluster("closed"), policy="dps", parameters={"price": "fluid"}), False)
    open_market(make_cluster("again"), policy="dps")
    open_market(make_cluster("none"), policy="fifo")
    open_market(make_cluster("weighted"), policy="weighted_completion")
    assert warming.groups_of_open_markets() == (kernels.RIGID, kernels.QUEUES, kernels.PLANNER)


@pytest.mark.usefixtures("same_priority")
def test_a_market_whose_policy_is_gone_is_named_and_keeps_no_worker_from_the_others(
    queued: Market, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = open_market(make_cluster("gone"), policy="dps")
    PolicyVersion.objects.filter(market=gone).update(name="no-such")
    compiled: list[kernels.Group] = []
    settings.EMBEDDED = False
    monkeypatch.setattr(warming, "compile_here", compiled.extend)
    tasks.prepare_worker()
    assert compiled == [kernels.RIGID, kernels.QUEUES]
    [record] = caplog.records
    assert record.getMessage().startswith(
        "the market gone decides no bids: this version does not have its policy (unknown policy 'no-such'; known: "
    )
    assert record.getMessage().endswith("; an operator has to run the version that has it")
    assert record.exc_info is None


def test_a_server_asks_for_no_kernels_of_studies(db: None) -> None:
    """Certificates of completions and of competition need those of bounds."""
    for name in POLICIES.keys() - {"oasis"}:  # which these servers do not suit
        open_market(make_cluster(name.replace("_", "-")), policy=name)
    needed = {kernels.RIGID, kernels.PLANNER, kernels.COMPETITION, kernels.QUEUES, kernels.BOUNDS}
    assert set(warming.groups_of_open_markets()) == needed


def test_the_processes_get_the_parts_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    def command(parts: dict[str, object]) -> tuple[str, ...]:
        commands.append(tuple(parts))
        return ("sleep", "60")

    monkeypatch.setattr(compiling, "command", command)
    warm = warming.Warming((kernels.RIGID, kernels.QUEUES))
    warm.ask((kernels.QUEUES, kernels.FLUID))
    warm.close()
    both = ("rigid.search", "rigid.tables", "queues")
    assert commands == [both, both, ("fluid",)], "two side by side; what was asked for is not asked for again"


def test_each_market_waits_for_its_own_kernels_alone(queued: Market, market: Market, start: Start) -> None:
    start(kernels.RIGID, kernels.QUEUES, done=("queues",))
    wait_until(lambda: warming.prepare(queued.pk))
    assert quote(market=queued, body=queued_body()).decision.admitted
    assert not warming.prepare(market.pk)
    with pytest.raises(NotReady, match="compiling the kernels of DPS; ask again in a few seconds"):
        quote(market=market, body=body())


def test_a_sweep_decides_what_it_can_and_the_rest_later(
    queued: Market, market: Market, alice: User, start: Start
) -> None:
    submit(market, alice)
    other = submit_bid(cluster=queued.cluster, owner=alice, body=queued_body()).bid
    first = start(kernels.RIGID, kernels.QUEUES, done=("queues",))
    wait_until(lambda: warming.prepare(queued.pk))
    tasks.sweep()
    assert set(Bid.objects.filter(state=BidState.SUBMITTED).values_list("market", flat=True)) == {market.pk}
    other.refresh_from_db()
    assert other.state != BidState.SUBMITTED
    assert tasks.decide_market(market.pk) == 0
    first.close()
    start(kernels.RIGID, kernels.QUEUES, done=("rigid.search", "rigid.tables", "queues"))
    wait_until(lambda: warming.prepare(market.pk))
    assert tasks.decide_market(market.pk) == 1


def test_the_collector_of_garbage_passes_over_kernels_once_all_are_here(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    busy: list[bool] = []
    warm: warming.Warming = start(done=("queues",), ends=True)
    monkeypatch.setattr(memory, "pass_over_what_is_loaded", lambda: busy.append(warm.is_busy))
    warm.ask((kernels.QUEUES,))
    wait_until(lambda: bool(busy))
    assert busy == [False]


def test_a_group_is_there_when_all_of_its_parts_are(market: Market, start: Start) -> None:
    warm = start(kernels.RIGID, done=("rigid.search",))
    assert not warm.wait((kernels.RIGID,), at_most_s=0.5)
    warm.close()
    assert start(kernels.RIGID, done=("rigid.search", "rigid.tables")).wait((kernels.RIGID,), at_most_s=20)


def test_no_transaction_waits_for_a_compiler(market: Market, alice: User, start: Start) -> None:
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    before = bid.state
    set_time(market, 100)
    start(kernels.RIGID)
    with pytest.raises(NotReady, match="DPS"):
        cancel_job(bid)
    bid.refresh_from_db()
    assert bid.state == before


def test_kernels_of_a_market_that_is_opened_are_loaded_before_its_first_quote(
    db: None, start: Start, django_capture_on_commit_callbacks: Any
) -> None:
    warm = start(done=("rigid.search", "rigid.tables"))
    with django_capture_on_commit_callbacks(execute=True):
        market = open_market(make_cluster(), policy="dps")
    wait_until(lambda: not warm.is_busy)
    assert quote(market=market, body=body()).decision.admitted

    warm.close()
    set_open(market, False)
    warm = start(done=("rigid.search", "rigid.tables"))
    with django_capture_on_commit_callbacks(execute=True):
        set_open(market, True)
    wait_until(lambda: not warm.is_busy)
    assert quote(market=market, body=body()).decision.admitted


def test_the_admin_says_of_each_action_that_kernels_are_compiled(market: Market, alice: User, start: Start) -> None:
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    servers = list(market.cluster.servers.order_by("position"))
    lose_server(servers[-1], reason="", by=None)
    operator = Client()
    operator.force_login(make_operator())
    start(kernels.RIGID)
    words = "The server is compiling the kernels of DPS; ask again in a few seconds."

    failing = {"action": "fail", "_selected_action": [bid.pk], "refund": "full", "reason": "its data was damaged"}
    page = operator.post("/admin/auctions/bid/", failing, follow=True).content.decode()
    assert f"The job of {bid} goes on: {words}" in page
    returning = {"action": "return_to_service", "_selected_action": [Outage.objects.get().pk]}
    page = operator.post("/admin/auctions/outage/", returning, follow=True).content.decode()
    assert f"Server {servers[-1].name} is not in service: {words}" in page
    losing = {"server": servers[0].pk, "kind": "lost", "reason": "it burns"}
    assert words in operator.post("/admin/auctions/outage/report/", losing).content.decode()
    assert Outage.objects.filter(ended_version=None).count() == 1


def test_nobody_waits_for_a_compiler_with_a_transaction_open(market: Market, start: Start) -> None:
    start(kernels.RIGID)
    policy = PolicyVersion.in_force(market.pk).policy()
    with transaction.atomic(), pytest.raises(WaitsInTransaction):
        warming.check(policy, patience_s=0.1)
    with transaction.atomic(), pytest.raises(NotReady):
        warming.check(policy)


def test_competitive_ratio_of_a_market_wait_for_its_kernels(
    queued: Market, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[int] = []
    monkeypatch.setattr("auctions.readings.competitive_ratio.renew", renewed.append)
    warm = start(kernels.QUEUES)
    tasks.measure()
    assert not renewed
    warm.close()
    tasks.measure()
    assert queued.pk in renewed


def test_a_new_policy_has_its_kernels_before_it_is_in_force(
    market: Market, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctions.engine.policies.PATIENCE_S", 0.2)
    start(kernels.RIGID, done=("rigid.search", "rigid.tables"))
    wait_until(lambda: warming.prepare(market.pk))
    with pytest.raises(NotReady, match="kernels of Weighted completion"):
        change_policy(market, name="weighted_completion", parameters={}, by=None)
    assert PolicyVersion.in_force(market.pk).policy().name == "dps"
    change_policy(market, name="fifo", parameters={}, by=None)


def test_pages_and_the_interface_say_what_a_market_waits_for(market: Market, alice: User, start: Start) -> None:
    client = Client()
    client.force_login(alice)
    words = "The server is compiling the kernels of DPS; bids wait and will be decided."
    seen = ("/markets/lab/", "/markets/lab/submit/", "/markets/lab/bids/", "/")
    assert not any(words in client.get(page).text for page in seen)
    warm = start(kernels.RIGID)
    assert all(words in client.get(page).text for page in seen)
    assert client.get("/markets/lab/compiling").text == words
    assert client.get("/api/v1/clusters/lab").json()["compiling"] == words
    answer = client.post("/api/v1/clusters/lab/quotes", body(), content_type="application/json")
    assert answer.status_code == 503
    assert "again" in answer.json()["detail"]
    assert int(answer["Retry-After"]) > 0
    warm.close()
    assert client.get("/markets/lab/compiling").text == ""
    assert client.get("/api/v1/clusters/lab").json()["compiling"] == ""


def test_a_server_that_stops_meanwhile_leaves_no_compiler_behind(start: Start) -> None:
    warm = start(kernels.RIGID, kernels.ELASTIC)
    children = list(warm._children)
    assert len(children) == 2
    warm.close()
    assert all(child.poll() is not None for child in children)


def test_what_no_other_process_could_compile_is_compiled_here(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[kernels.Group] = []
    monkeypatch.setattr(kernels, "warm_up", lambda *groups: called.extend(groups))
    warm = start(kernels.QUEUES, ends=True)
    assert warm.wait((kernels.QUEUES,), at_most_s=20)
    assert called == [kernels.QUEUES]
    assert "ended before" in caplog.text


def test_a_worker_compiles_what_its_markets_need_and_nothing_else(
    queued: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(kernels, "is_warm", lambda group: False)
    monkeypatch.setattr(compiling, "compile_all", lambda parts: asked.append(list(parts)))
    assert warming.prepare(queued.pk)
    assert asked == [["queues"]]


def test_a_worker_passes_over_a_market_for_which_another_worker_compiles(
    queued: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[list[str]] = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "is_warm", lambda group: False)
    monkeypatch.setattr(compiling, "compile_all", lambda parts: loaded.append(list(parts)))
    monkeypatch.setattr(compiling, "_gives_way", False)
    # The other worker: it has begun, and has the lock of no part at this moment.
    with compiling.turn(warming.WORKERS, wait=False) as is_begun:
        assert is_begun
        assert not warming.prepare(queued.pk)
        assert loaded == []
        monkeypatch.setattr(compiling, "is_kept", lambda part: True)
        assert warming.prepare(queued.pk), "what is on disk is loaded at once"
    monkeypatch.setattr(compiling, "is_kept", lambda part: False)
    assert warming.prepare(queued.pk), "the other worker was killed"
    assert loaded == [["queues"]] * 2


@pytest.mark.django_db
@pytest.mark.usefixtures("same_priority")
def test_a_worker_without_open_markets_loads_no_kernels(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.EMBEDDED = False
    loaded: set[kernels.Group] = set()
    monkeypatch.setattr(kernels, "_warm", loaded)
    tasks.prepare_worker()
    assert warming.groups_of_open_markets() == ()
    assert loaded == set()


COMPILE = """
from auctions.kernels import compiling
from scheduling.pricing.fluid_descent import descend

compiling.compile_all(["fluid"])
print(sum(descend.stats.cache_misses.values()), sum(descend.stats.cache_hits.values()))
"""


ASK = """
import sys
from auctions.kernels import compiling
compiling.main(["fluid"])
print("the compiler" if "numba" in sys.modules else "no compiler")
"""


def test_two_processes_share_a_cache_and_compile_a_kernel_once(tmp_path: Path) -> None:
    command, env = [sys.executable, "-c", COMPILE], {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = sorted(child.communicate(timeout=120)[0].split() for child in both)
    assert counts == [["0", "1"], ["1", "0"]]
    later = subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True, check=True)
    assert later.stdout.splitlines() == ['{"part": "fluid"}', '{"ready": true}', "no compiler"]


def test_what_is_on_disk_is_compiled_again_when_anything_changes_that_it_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, processors = tmp_path / "sources", tmp_path / "cpuinfo"
    sources.mkdir()
    (sources / "kernel.py").write_text("1")
    processors.write_text("flags\t\t: avx2\ncpu MHz\t\t: 2000\n")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(compiling, "SOURCES", sources)
    monkeypatch.setattr(compiling, "PROCESSORS", processors)
    monkeypatch.setattr(kernels, "compile_part", lambda name: None)

    def is_kept(part: str) -> bool:
        compiling.made_of.cache_clear()
        return compiling.is_kept(part)

    def compile_again() -> None:
        assert not is_kept("queues")
        assert compiling.compile_part("queues")
        assert is_kept("queues")
        assert not is_kept("fluid")

    compile_again()
    processors.write_text("flags\t\t: avx2\ncpu MHz\t\t: 2100\n")
    assert is_kept("queues")
    processors.write_text("flags\t\t: avx512\ncpu MHz\t\t: 2000\n")
    compile_again()
    (sources / "kernel.py").write_text("12")
    compile_again()
    monkeypatch.setattr(compiling, "version", lambda name: "another")
    compile_again()
    compiling.made_of.cache_clear()


def test_a_part_that_another_process_compiles_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "compile_part", lambda name: None)
    with compiling.turn("queues", wait=True) as mine:
        assert mine
        each = compiling.compile_each(["queues", "fluid", "bounds"])
        assert [next(each), next(each)] == ["fluid", "bounds"]
    assert list(each) == ["queues"]


def test_nobody_waits_for_a_part_that_a_process_compiles_which_lets_others_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []

    def compiled(name: str) -> None:
        with compiling.turn(name, wait=False) as mine:  # as another process would: a lock is of an open file
            taken.append(mine)

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "compile_part", compiled)
    monkeypatch.setattr(compiling, "_gives_way", False)
    assert compiling.compile_part("queues")
    compiling.give_way()
    assert compiling.compile_part("queues")
    assert taken == [False, True]
    monkeypatch.setattr(compiling, "_gives_way", False)
    with compiling.turn("queues", wait=False):
        compiling.give_way()
        assert not compiling.compile_part("queues", wait=False), "it waits for others all the same"


@pytest.mark.django_db
@pytest.mark.usefixtures("same_priority")
@pytest.mark.parametrize(("queue", "gives_way"), [(tasks.BOUNDS, True), (tasks.DECISIONS, False)])
def test_a_worker_of_certificates_gives_way_in_compiling_too(
    queue: str, gives_way: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMBEDDED = False
    monkeypatch.setattr(compiling, "_gives_way", False)
    queues = SimpleNamespace(consume_from=[queue])
    tasks.prepare_worker(SimpleNamespace(app=SimpleNamespace(amqp=SimpleNamespace(queues=queues))))
    assert compiling._gives_way == gives_way


def test_a_process_that_follows_compiles_nothing_that_another_one_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    compiled: list[str] = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "compile_part", compiled.append)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    follower = Thread(target=compiling.main, args=([compiling.FOLLOW, "queues", "fluid"],))
    with compiling.turn("queues", wait=True):
        follower.start()
        follower.join(0.1)
        assert follower.is_alive(), "it takes no other part meanwhile"
        assert compiled == []
        (tmp_path / "queues.kept").write_text(compiling.made_of())
    follower.join()
    assert compiled == ["fluid"]
    assert capfd.readouterr().out.splitlines() == ['{"part": "queues"}', '{"part": "fluid"}', '{"ready": true}']


def test_a_process_that_follows_reports_a_later_part_while_an_earlier_one_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    with compiling.turn("planner", wait=True):
        (tmp_path / "queues.kept").write_text(compiling.made_of())
        following = compiling.follow(["planner", "queues"])
        assert next(following) == "queues"
        (tmp_path / "planner.kept").write_text(compiling.made_of())
        assert list(following) == ["planner"]


def test_a_worker_beside_a_server_has_one_process_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    def command(arguments: Iterable[str]) -> tuple[str, ...]:
        commands.append(tuple(arguments))
        return ("sleep", "60")

    monkeypatch.setattr(compiling, "command", command)
    warming.Warming((kernels.QUEUES, kernels.FLUID), follows=True).close()
    assert commands == [(compiling.FOLLOW, "queues", "fluid")]


def test_kernels_are_kept_elsewhere_where_the_sources_are_not_this_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, inside = tmp_path / "scheduling", tmp_path / "scheduling" / "offline"
    inside.mkdir(parents=True)
    (package / "__pycache__").mkdir()
    assert beside_sources(package)
    # Not by permissions: root, who may write anywhere, runs tests too.
    for refused in (package / "__pycache__", inside):
        monkeypatch.setattr(os, "access", lambda path, mode, refused=refused: path != refused)
        assert not beside_sources(package)
    monkeypatch.setattr(os, "access", lambda path, mode: path != package)
    assert beside_sources(package), "its cache is there, and that may be written to"


def test_the_cache_of_kernels_is_the_sources_or_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert compiling.cache_folder() == Path(kernels.__file__).parent / "__pycache__"
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/somewhere")
    assert compiling.cache_folder() == Path("/somewhere")
