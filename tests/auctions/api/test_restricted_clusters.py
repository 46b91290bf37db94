"""A user who may not see a restricted cluster gets the answers for a name that no cluster has, from every operation."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from accounts.teams import change_cluster_teams
from auctions.models import Market
from tests.auctions.worlds import body, make_user

METHODS = ("get", "post", "put", "delete")
BODIES: Any = ({}, {"bids": []}, {"bids": [body()]}, body(), {"reason": 3}, {"operated_by": "x", "teams": ["y"]})
NAMED: Any = [
    ("tokens", {"name": "", "scope": "bid"}),
    ("webhooks", {"name": "", "url": "ftp://x"}),
    ("plans", {"seconds": "x", "seed": -1}),
    ("plans", {"instance": {"helpers": []}}),
    ("experiments", {"workloads": [{"trace": 1}], "seeds": "x"}),
    ("experiments", {"workloads": [{"generator": "dps"}], "policies": [{"name": "fifo"}]}),
]
"""Operations whose bodies name a cluster, with bodies that are wrong in other ways, too."""


@pytest.fixture
def stranger(market: Market, db: None) -> APIClient:
    """A client of a user who may not see the cluster `lab`."""
    change_cluster_teams(market.cluster, operated_by=None, is_restricted=True, teams=[])
    client = APIClient()
    client.force_authenticate(User.objects.get(pk=make_user("stranger").pk))
    return client


def said(answer: Any, name: str) -> tuple[int, str]:
    return answer.status_code, answer.content.decode().replace(name, "...")


def test_every_address_that_names_it_is_as_that_of_no_cluster(stranger: APIClient, document: Any) -> None:
    places = {"sequence": "1", "server": "edge-0", "key": "a", "program": "1", "counterfactual": "1"}
    asked = 0
    for path, operations in document["paths"].items():
        if "{cluster}" not in path:
            continue
        for method in METHODS:
            if method in operations:
                for sent in BODIES if method in ("post", "put") else (None,):
                    answers = []
                    for name in ("lab", "nowhere"):
                        address = path.format(cluster=name, **places)
                        answers.append(said(getattr(stranger, method)(address, sent, format="json"), name))
                    assert answers[0] == answers[1], (method, path, sent)
                    asked += 1
    assert asked > 50


@pytest.mark.parametrize(("operation", "sent"), NAMED)
def test_every_body_that_names_it_is_as_one_with_no_cluster(stranger: APIClient, operation: str, sent: Any) -> None:
    answers = []
    for name in ("lab", "nowhere"):
        named = {**sent, "cluster": name}
        if operation == "experiments":
            named = {**sent, "workloads": [{**one, "cluster": name} for one in sent["workloads"]]}
        answers.append(said(stranger.post(f"/api/v1/{operation}", named, format="json"), name))
    assert answers[0] == answers[1]
    assert answers[0][0] == 400
    assert "cluster" in answers[0][1]
