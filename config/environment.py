"""Values of environment variables, and what a service in production refuses to start with.

A value that is not what its variable expects is noted in `wrong`, so that one error names all of them: a word such as
`true` must not count as 0, and a number that nobody can read must not fail without the name of its variable.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import dj_database_url
from dj_database_url import DBConfig

LEAST_KEY: Final = 50
"""Characters of a secret key, of which `openssl rand -hex 32` makes 64."""
MOST: Final = 10**9
"""The largest number that a variable may have."""
ENGINES: Final = ("django.db.backends.sqlite3", "django.db.backends.postgresql")
HOST: Final = r"\*|\.?[^\s/:*]+|\[[0-9a-fA-F:.]+\]"
"""A host name as Django compares it; one that begins with a point is also of all names below it."""
IN_MEMORY: Final = "sqlite://:memory:"
OPTION_OF_TLS: Final = "ssl_cert_reqs=(none|optional|required)|ssl_(ca_certs|certfile|keyfile)=[^&]+"
OPTIONS_OF_BROKER: Final = {
    "redis": "",
    "rediss": f"({OPTION_OF_TLS})(&({OPTION_OF_TLS}))*",
    "unix": "db=[0-9]{1,9}",
}
"""Options after `?` in the address of a broker, by scheme. Celery and the client of Redis both understand it."""
VALUES_OF_POSTGRES: Final = {
    "channel_binding": "disable|prefer|require",
    "connect_timeout": "[0-9]{1,9}",
    "gssencmode": "disable|prefer|require",
    "sslmode": "disable|allow|prefer|require|verify-ca|verify-full",
    "target_session_attrs": "any|read-write|read-only|primary|standby|prefer-standby",
}
"""Values of options in the address of PostgreSQL. A wrong one fails at every connection, like a database that is away.
"""
ORIGIN: Final = r"https?://([^\s/:@?#\[\]]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?"
"""An address without a path, as the header `Origin` has it; it may begin with `*.` for all names below one."""
RATE: Final = r"[1-9][0-9]{0,8}/(s|sec|second|m|min|minute|h|hour|d|day)", "a rate such as 300/second"

wrong: list[str] = []
"""Problems of the variables that were read so far."""


class WrongSettings(SystemExit):
    """Ends a process with a message about wrong settings and no traceback, whatever has imported them."""


def flag(name: str, *, default: bool = False) -> bool:
    """Return whether a variable is 1; the default if it is not set or empty."""
    text = os.environ.get(name, "")
    if text not in ("", "0", "1"):
        wrong.append(f"{name}: expected 0 or 1, got {text!r}")
    return text == "1" if text in ("0", "1") else default


def whole(name: str, default: int, *, least: int = 1) -> int:
    """Return a variable's whole number, at least `least`; the default if it is not set or empty."""
    return int(_between(name, default, least, pattern="[0-9]{1,10}", kind="a whole number"))


def number(name: str, default: float, *, least: float) -> float:
    """Return a variable's number, at least `least`; the default if it is not set or empty."""
    return _between(name, default, least, pattern=r"[0-9]{1,10}(\.[0-9]{1,9})?", kind="a number")


def _between(name: str, default: float, least: float, *, pattern: str, kind: str) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    if re.fullmatch(pattern, text) and least <= float(text) <= MOST:
        return float(text)
    wrong.append(f"{name}: expected {kind} from {least:g} to {MOST:,}, got {text!r}")
    return default


def matching(name: str, default: str, pattern: str, expected: str) -> str:
    """Return a variable's text, which has to match `pattern`; the default if it is not set or empty."""
    text = os.environ.get(name, "")
    if not text or re.fullmatch(pattern, text):
        return text or default
    wrong.append(f"{name}: expected {expected}, got {text!r}")
    return default


def several(name: str, default: str = "", *, pattern: str = ".+", expected: str = "") -> list[str]:
    """Return the texts of a variable, separated by commas, each of which has to match `pattern`."""
    found = [one.strip() for one in (os.environ.get(name, "") or default).split(",")]
    wrong.extend(f"{name}: expected {expected}, got {one!r}" for one in found if one and not re.fullmatch(pattern, one))
    return [one for one in found if one]


def networks(name: str) -> list[str]:
    """Return a variable's addresses or networks, separated by commas."""
    found = several(name)
    for one in found:
        try:
            ip_network(one)
        except ValueError as error:
            wrong.append(f"{name}: expected addresses or networks, separated by commas, got {one!r}: {error}")
    return found


def has_traces() -> bool:
    """Return whether spans are sent to a receiver, and check the variables that OpenTelemetry itself reads."""
    prefix = "OTEL_EXPORTER_OTLP_"
    address = r"https?://[^/\s]+\S*", "an address such as http://collector.example.org:4318"
    found = [matching(f"{prefix}{name}", "", *address) for name in ("ENDPOINT", "TRACES_ENDPOINT")]
    samplers = "(parentbased_)?(always_on|always_off|traceidratio)"
    matching("OTEL_TRACES_SAMPLER", "", samplers, "a sampler such as parentbased_traceidratio")
    matching("OTEL_TRACES_SAMPLER_ARG", "", r"0?\.[0-9]+|[01](\.0*)?", "a number from 0 to 1")
    return any(found)


def email_server(url: str) -> SplitResult:
    """Return the parts of the address of the e-mail server, which are empty without one."""
    try:
        found = urlsplit(url)
        is_right = not url or (
            found.scheme in ("smtp", "smtp+tls", "smtps") and bool(found.hostname) and found.port != 0
        )
    except ValueError:  # a port that is no number
        is_right = False
    if is_right:
        return found
    # Its password is not shown.
    expected = "expected smtp, smtp+tls or smtps://user:password@host:port"
    wrong.append(f"SHADOWPRICE_EMAIL_URL: {expected}, got another address")
    return urlsplit("")


def database(url: str) -> DBConfig:
    """Return the database of an address, for Django."""
    try:
        found = dj_database_url.parse(url, conn_max_age=0)
    except ValueError:
        found = None
    # Without a name it would be a database in memory, of which each process has its own: tests ask for it by name.
    is_named = found is not None and (url == IN_MEMORY or found["NAME"] not in ("", ":memory:"))
    if found is not None and found["ENGINE"] in ENGINES and is_named:
        wrong.extend(_problems_of_database(found))
        return found
    # Its password is not shown.
    expected = "expected sqlite:///file or postgres://user:password@host:port/name"
    wrong.append(f"DATABASE_URL: {expected}, got another address")
    return dj_database_url.parse(IN_MEMORY)


def _problems_of_database(found: DBConfig) -> list[str]:
    name = Path(found["NAME"])
    if found["ENGINE"].endswith("postgresql"):
        import psycopg2.extensions  # noqa: PLC0415 (SQLite does not need it)

        # Django itself reads this one.
        options = {key: value for key, value in found.get("OPTIONS", {}).items() if key != "assume_role"}
        try:
            psycopg2.extensions.make_dsn(**options)
        except psycopg2.ProgrammingError as error:
            text = str(error).strip().removeprefix("invalid dsn: ")
            return [f"DATABASE_URL: expected options of PostgreSQL, got {text}"]
        return [
            f"DATABASE_URL: expected {key}={values}, got {options[key]}"
            for key, values in VALUES_OF_POSTGRES.items()
            if key in options and not re.fullmatch(values, str(options[key]))
        ]
    if str(name) != ":memory:" and (name.is_dir() or not name.absolute().parent.is_dir()):
        return [f"DATABASE_URL: expected a file in a directory that exists, got {name}"]
    return []


def secret(name: str, default: str = "") -> str:
    """Return a variable's value, or that of the file that `<name>_FILE` names; the default if neither is set."""
    file = os.environ.get(f"{name}_FILE", "")
    if not file:
        return os.environ.get(name) or default
    if os.environ.get(name):
        wrong.append(f"{name}: expected a value or {name}_FILE, got both")
        return default
    try:
        value = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        wrong.append(f"{name}_FILE: expected a file that can be read, got {file}: {error}")
        return default
    if not value:
        wrong.append(f"{name}_FILE: expected a secret, got the empty file {file}")
    return value or default


def directory(name: str, default: Path, *, is_made: bool = False) -> Path:
    """Return a variable's directory, absolute; the default if it is not set or empty. With `is_made` make it."""
    path = Path(os.environ.get(name, "") or default).absolute()
    try:
        if is_made:
            path.mkdir(parents=True, exist_ok=True)
        else:
            found = next(one for one in (path, *path.parents) if one.exists())
            if not found.is_dir():
                raise NotADirectoryError(f"{found} is no directory")
    except OSError as error:
        wrong.append(f"{name}: expected a directory that this user can make and write, got {path}: {error}")
    return path


def folder_of_data(data: Path, name: str) -> Path:
    """Make a folder in the data directory if it is not there. Raises WrongSettings if this user cannot write there."""
    try:
        (data / name).mkdir(exist_ok=True)
    except OSError as error:
        refuse([f"SHADOWPRICE_VAR: expected a directory that this user can write, got {data}: {error}"])
    return data / name


def broker(url: str) -> str:
    """Return the address of the broker, which is empty without one."""
    try:
        parts = urlsplit(url)
        path = {"unix": r"/\S+"}.get(parts.scheme, "(/([0-9]{1,9})?)?")
        is_right = not url or (
            parts.scheme in OPTIONS_OF_BROKER
            and re.fullmatch(r"\S+://\S+", url) is not None
            and re.fullmatch(path, parts.path) is not None
            and (not parts.query or re.fullmatch(OPTIONS_OF_BROKER[parts.scheme], parts.query) is not None)
            and parts.port != 0
        )
    except ValueError:  # a port that is no number
        is_right = False
    if not is_right:
        # Its password is not shown.
        wrong.append("REDIS_URL: expected redis://:password@host:port/number, got another address")
    return url


def broker_of_celery(url: str) -> str:
    """Return the same broker as Celery names it: another scheme for a socket, and TLS that checks certificates."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        number = parts.query.removeprefix("db=") or "0"
        return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={number}"
    if parts.scheme == "rediss" and "ssl_cert_reqs=" not in parts.query:
        # Without this option the client of Redis checks certificates, and Celery does not.
        return parts._replace(query="&".join(filter(None, (parts.query, "ssl_cert_reqs=required")))).geturl()
    return url


def own_key(file: Path) -> str:
    """Return the secret key in a file of the data directory. The first process makes it; its user alone may read it.

    Raises
    ------
    WrongSettings
        If the file cannot be read and written, or its key is too short.
    """
    try:
        with open(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+", encoding="ascii") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)  # of several processes that start, one makes the key
            key = opened.read().strip()
            if not key:
                key = secrets.token_hex(LEAST_KEY)
                opened.write(key)
                opened.flush()
                os.fsync(opened.fileno())
    except (OSError, UnicodeDecodeError) as error:
        raise WrongSettings(
            f"SHADOWPRICE_SECRET_KEY: expected a key, or a file that this user can read and write, got {file}: {error}."
        ) from None
    if len(key) < LEAST_KEY:
        raise WrongSettings(f"{file}: expected at least {LEAST_KEY} characters, got {len(key)}.")
    return key


def problems(
    *, debug: bool, key: str, hosts: list[str], engine: str, has_broker: bool, is_behind_tls: bool, has_proxies: bool
) -> list[str]:
    """Return why a service with these settings must not start in production; empty if it may."""
    found = []
    if debug:
        found.append("SHADOWPRICE_DEBUG: expected 0, got 1; errors would show source code and settings")
    if len(key) < LEAST_KEY:
        text = f"got {len(key)}" if key else "got none"
        found.append(f"SHADOWPRICE_SECRET_KEY: expected at least {LEAST_KEY} characters, {text}")
    if "*" in hosts:
        found.append("SHADOWPRICE_HOSTS: expected the names that are served, got *")
    is_sqlite = engine.endswith("sqlite3")
    if is_sqlite and has_broker:
        found.append("DATABASE_URL: expected PostgreSQL with REDIS_URL, got SQLite, which several hosts cannot share")
    if not is_sqlite and not has_broker:
        found.append("REDIS_URL: expected a broker with PostgreSQL, got none")
    if is_behind_tls and not has_proxies:
        found.append("SHADOWPRICE_PROXIES: expected the proxy that speaks TLS for SHADOWPRICE_ORIGINS, got none")
    return found


def single_sign_on_problems(*, issuer: str, client: str, client_secret: str, has_passwords: bool) -> list[str]:
    """Return what is wrong with the settings of single sign-on; empty if it is off, or if they are complete."""
    values = {"ISSUER": issuer, "CLIENT_ID": client, "CLIENT_SECRET": client_secret}
    found = []
    if any(values.values()):
        found = [f"SHADOWPRICE_OIDC_{name}: expected a value, got none" for name, value in values.items() if not value]
    elif not has_passwords:
        found.append("SHADOWPRICE_PASSWORD_LOGINS: expected 1 without single sign-on, or nobody could log in")
    try:
        parts = urlsplit(issuer)
        is_address = bool(parts.hostname) and parts.port != 0 and re.search(r"\s", issuer) is None
    except ValueError:  # a port that is no number, or one bracket without the other
        is_address = False
    is_here = is_address and parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if issuer and not (is_address and (parts.scheme == "https" or is_here)):
        found.append(f"SHADOWPRICE_OIDC_ISSUER: expected an https address, got {issuer}")
    return found


def refuse(found: Sequence[str]) -> None:
    """Raise WrongSettings with all that was found, if there is anything; each problem is named once."""
    if found:
        raise WrongSettings("; ".join(dict.fromkeys(found)) + ".")
