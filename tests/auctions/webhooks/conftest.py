"""A receiver on loopback, which the settings allow."""

from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User

from auctions.webhooks.hooks import Made, WebhookRequest, create
from tests.auctions.webhooks.receiver import Receiver, receiver


@pytest.fixture
def allowed(settings: LazySettings) -> None:
    """Loopback is a network to which webhooks may be sent."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]


@pytest.fixture
def there(allowed: None) -> Iterator[Receiver]:
    """A receiver."""
    with receiver() as found:
        yield found


@pytest.fixture
def made(alice: User, there: Receiver) -> Made:
    """Alice's webhook for all events of her bids, with its secret."""
    return create(alice, WebhookRequest("chat", there.url))
