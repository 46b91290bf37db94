"""Faults at a chosen statement: a trigger in the database stops or ends the connection of the one that runs it.

The triggers are of the storm alone. A row of `storm_aim` names a table, and the next statement that changes it meets
the fault: its connection is ended there, in the middle of its transaction, or it is held until the process that runs it
has been killed. A deferred trigger does so within the commit.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg2

TABLES: Final = (
    "auctions_bid",
    "auctions_event",
    "auctions_market",
    "auctions_decisionrecord",
    "auctions_firstdecision",
    "auctions_commitment",
    "auctions_payment",
    "auctions_slotprice",
    "auctions_queuedchunks",
    "auctions_planchange",
)
"""Tables that submissions, decisions and slots write."""
AT_COMMIT: Final = "at commit"
HELD_S: Final = 3.0
"""Longest time for which a statement is held until its process is killed."""
TRIGGERS: Final = """
CREATE TABLE storm_aim (name text, is_killed boolean);
CREATE SEQUENCE storm_hits;
CREATE FUNCTION storm_hit(aimed_at text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE aim record;
BEGIN
    FOR aim IN SELECT * FROM storm_aim WHERE name = aimed_at LIMIT 1 LOOP
        IF nextval('storm_hits') = 1 THEN
            IF aim.is_killed THEN
                PERFORM pg_sleep(%(held)s);
            END IF;
            PERFORM pg_terminate_backend(pg_backend_pid());
        END IF;
    END LOOP;
END $$;
CREATE FUNCTION storm_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM storm_hit(TG_TABLE_NAME); RETURN NULL; END $$;
CREATE FUNCTION storm_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM storm_hit('at commit'); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER storm_commit AFTER INSERT ON auctions_decisionrecord DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION storm_commit();
"""
TRIGGER: Final = """
CREATE TRIGGER storm_statement AFTER INSERT OR UPDATE ON {0} FOR EACH STATEMENT EXECUTE FUNCTION storm_statement();
"""


class Aim:
    """The triggers of one database."""

    def __init__(self, address: str) -> None:
        self._address = address
        with self._cursor() as cursor:
            cursor.execute(TRIGGERS, {"held": HELD_S})
            for table in TABLES:
                cursor.execute(TRIGGER.format(table))

    def end_connection(self, at: str, *, seconds: float) -> bool:
        """End the next connection that writes this table, or commits; return whether one did within this time."""
        return self._aimed(at, is_killed=False, seconds=seconds)

    def kill_process(self, at: str, *, seconds: float) -> bool:
        """Kill the next process that writes this table, or commits, in that statement; return whether one was."""
        return self._aimed(at, is_killed=True, seconds=seconds)

    def remove(self) -> None:
        """Aim at nothing any more."""
        with self._cursor() as cursor:
            cursor.execute("DELETE FROM storm_aim")

    def _aimed(self, at: str, *, is_killed: bool, seconds: float) -> bool:
        with self._cursor() as cursor:
            cursor.execute("DELETE FROM storm_aim")
            cursor.execute("SELECT setval('storm_hits', 1, false)")
            cursor.execute("INSERT INTO storm_aim VALUES (%s, %s)", (at, is_killed))
            try:
                return self._wait(cursor, is_killed=is_killed, seconds=seconds)
            finally:
                cursor.execute("DELETE FROM storm_aim")

    def _wait(self, cursor: Any, *, is_killed: bool, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if is_killed:
                cursor.execute("SELECT client_port FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
                for (port,) in cursor.fetchall():
                    return [_kill(process) for process in owners(port)].count(True) > 0
            else:
                cursor.execute("SELECT is_called FROM storm_hits")
                if cursor.fetchone()[0]:
                    return True
            time.sleep(0.005)
        return False

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with closing(psycopg2.connect(self._address)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                yield cursor


def _kill(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        return True
    return False


def owners(port: int) -> list[int]:
    """Return the processes that have a connection of TCP from this local port."""
    wanted = {
        f"socket:[{fields[9]}]"
        for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        if int(fields[1].rpartition(":")[2], 16) == port
    }
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(os.readlink(file) in wanted for file in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found
