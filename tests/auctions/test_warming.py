"""A server that compiles in the background."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions import warming
from auctions.errors import NotReady
from auctions.models import Market
from auctions.submission import quote
from tests.auctions.worlds import body


def test_a_quote_is_put_off_until_the_kernels_are_there(market: Market, alice: User) -> None:
    warm = warming.Warming()
    try:
        assert warming.is_under_way()
        with pytest.raises(NotReady, match="again"):
            quote(cluster=market.cluster, body=body())
        warming.wait()
        assert quote(cluster=market.cluster, body=body()).decision.admitted
    finally:
        warm.close()


def test_a_server_that_stops_meanwhile_leaves_no_compiler_behind() -> None:
    warm = warming.Warming()
    warm.close()
    warming.wait()
    assert warm._child.poll() is not None
    assert not warming.is_under_way()


def test_the_interface_says_so_too(market: Market, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "is_under_way", lambda: True)
    client = Client()
    client.force_login(alice)
    answer = client.post("/api/v1/clusters/lab/quotes", body(), content_type="application/json")
    assert answer.status_code == 503
    assert "again" in answer.json()["detail"]
    assert int(answer["Retry-After"]) > 0
