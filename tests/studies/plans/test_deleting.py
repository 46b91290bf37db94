"""A plan that is deleted while something is added to it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.db.models.deletion import Collector
from pytest_django.plugin import DjangoDbBlocker
from rest_framework.test import APIClient

from auctions.domain.errors import WrongState
from studies.models import Plan
from studies.split_learning.plans.submission import compare_methods
from tests import processes
from tests.auctions.test_snapshots import Databases
from tests.studies.plans.conftest import URL, submitted


@pytest.fixture
def sqlite(
    tmp_path: Path, make_tables: Callable[[dict[str, str]], object], django_db_blocker: DjangoDbBlocker
) -> Iterator[Databases]:
    """A database in a file: those in memory do not let one connection wait for another."""
    make_tables({"SHADOWPRICE_VAR": str(tmp_path)})
    with django_db_blocker.unblock(), Databases({"NAME": str(tmp_path / processes.DATABASE)}).in_use() as found:
        yield found


def test_a_comparison_that_is_asked_while_its_plan_is_being_deleted_is_refused(
    sqlite: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = User.objects.create_user("alice")
    api = APIClient()
    api.force_authenticate(owner)
    plan, answers = submitted(owner), list[object]()

    def ask() -> None:
        connections["default"] = sqlite.another_reader()
        try:
            answers.append(compare_methods(owner, plan))
        except WrongState as error:
            answers.append(str(error))
        connections["default"].close()

    asked, delete = Thread(target=ask), Collector.delete

    def delete_late(collector: Collector) -> object:
        """Delete a second after the look at what there is to delete, in which the other request has come."""
        asked.start()
        asked.join(1.0)
        return delete(collector)

    monkeypatch.setattr(Collector, "delete", delete_late)
    assert api.delete(f"{URL}/{plan.pk}").status_code == 204
    asked.join()
    assert answers == [f"Plan {plan.pk} was deleted."]
    assert not Plan.objects.exists()
