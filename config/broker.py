"""A worker goes on after Redis did not answer when a task was acknowledged.

Celery logs such an error and goes on, but kombu then counts the message as under way for ever. A worker that takes one
message at a time would take none any more, although Redis answers again.
"""

from typing import Any

from kombu.transport import redis, virtual


class QoS(redis.QoS):
    """The messages that a worker has taken and not acknowledged yet."""

    def ack(self, delivery_tag: Any) -> None:
        """Acknowledge a message; if Redis does not answer, it may deliver the message again, as any other.

        Raises
        ------
        OSError, redis.exceptions.RedisError
            If Redis does not answer. The worker may take the next message all the same.
        """
        try:
            super().ack(delivery_tag)
        except Exception:  # whatever it is, the message is no longer under way here
            virtual.QoS.ack(self, delivery_tag)
            raise


def go_on_after_a_failed_ack() -> None:
    """Let all channels of this process count messages so."""
    redis.Channel.QoS = QoS
