from django.test import RequestFactory

from frontend.presenters.listing import listing


def test_other_pages_keep_the_filters_that_are_set() -> None:
    request = RequestFactory().get("/", {"page": "2", "state": "done"})
    context = listing(request, range(7), {"state": "done", "label": "", "owner": "a b"}, per_page=5)
    assert list(context["page"]) == [5, 6]
    assert context["query"] == "state=done&owner=a+b&"
    assert (context["state"], context["label"]) == ("done", "")


def test_a_page_that_is_none_is_the_nearest() -> None:
    numbers = {
        asked: listing(RequestFactory().get("/", {"page": asked}), range(30))["page"].number
        for asked in ("", "x", "0", "9")
    }
    assert numbers == {"": 1, "x": 1, "0": 2, "9": 2}
    assert listing(RequestFactory().get("/"), [])["query"] == ""
