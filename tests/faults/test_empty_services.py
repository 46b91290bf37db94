"""PostgreSQL and Redis, as other tests use them, are empty when they start."""

import psycopg2
import pytest
import redis


@pytest.mark.services
def test_postgres_starts_empty(postgres_url: str) -> None:
    with psycopg2.connect(postgres_url) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from information_schema.tables where table_schema = 'public'")
        assert cursor.fetchone() == (0,)
    connection.close()


@pytest.mark.services
def test_redis_starts_empty(redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    assert client.dbsize() == 0
    client.close()
