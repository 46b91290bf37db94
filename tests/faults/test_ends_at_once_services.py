"""Two users end the same jobs at the same moment on PostgreSQL: each job ends once, and the other call is refused."""

import json
from typing import Final

import pytest

from tests.forks import project

pytestmark = [pytest.mark.slow, pytest.mark.services]

JOBS: Final = 12
ENDS: Final = """
import json
from threading import Barrier, Thread
from django.db import connection
from auctions.domain.errors import WrongState
from auctions.engine import decision_queue, jobs
from auctions.engine.slots import pass_slots
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState, Event, EventKind
from tests.auctions.worlds import SLOT_S, make_cluster, make_market, make_user, set_time, submit

market = make_market(make_cluster(servers=8, units=64, horizon=40))
owner = make_user()
for _ in range({jobs}):
    submit(market, owner, 1e6, epochs=20)
decision_queue.process_pending(market.pk)
set_time(market, SLOT_S)
pass_slots(market.pk)
numbers = list(Bid.objects.order_by("pk").values_list("pk", flat=True))
together, ended, refused, failed = Barrier(2), [], [], []

def end(how):
    try:
        for number in numbers:
            bid = Bid.objects.get(pk=number)
            together.wait(30)
            try:
                how(bid)
                ended.append(number)
            except WrongState as error:
                refused.append(str(error))
    except BaseException as error:
        failed.append(repr(error))
        together.abort()
    finally:
        connection.close()

running = Bid.objects.filter(state=BidState.RUNNING).count()
threads = [Thread(target=end, args=(how,)) for how in ({first}, {second})]
for thread in threads: thread.start()
for thread in threads: thread.join()
kinds = (EventKind.CANCELLED, EventKind.COMPLETED, EventKind.FAILED)
found = dict(
    running=running, ended=sorted(ended) == numbers, refused=refused, failed=failed,
    events=Event.objects.filter(kind__in=kinds).count(),
    broken=[one.check for one in audit_market(market) if not one.passed],
)
print(json.dumps(found))
"""


@pytest.mark.parametrize("second", ["jobs.cancel_job", "jobs.complete_job"])
def test_a_job_that_two_users_end_at_once_ends_once(second: str, env: dict[str, str]) -> None:
    code = ENDS.format(jobs=JOBS, first="jobs.cancel_job", second=second)
    found = json.loads(project(env).run(["python", "-c", code], env=env, seconds=120).splitlines()[-1])
    assert found["failed"] == []
    assert found["running"] > 0
    assert found["ended"]
    assert found["events"] == JOBS
    assert len(found["refused"]) == JOBS
    assert all("only a bid that is" in why for why in found["refused"])
    assert found["broken"] == []
