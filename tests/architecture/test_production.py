"""Production refuses unsafe settings, all at once; secrets come from files; behind TLS, plain requests move."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from ssl import CERT_NONE, CERT_REQUIRED
from typing import Any, Final

import pytest
from celery import Celery
from django.conf import LazySettings
from django.test import Client
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection

from config import environment
from config.environment import LEAST_KEY, WrongSettings, own_key, problems, refuse, secret
from tests.architecture.test_compose import SERVICES
from tests.forks import libraries
from tests.processes import python_env

SAFE: Final[dict[str, Any]] = {
    "debug": False,
    "key": "k" * LEAST_KEY,
    "hosts": ["market.example.org"],
    "engine": "django.db.backends.postgresql",
    "has_broker": True,
    "is_behind_tls": True,
    "has_proxies": True,
}
SQLITE: Final = {"engine": "django.db.backends.sqlite3"}
FULL: Final = {
    "SHADOWPRICE_PRODUCTION": "1",
    "DATABASE_URL": "postgres://a@127.0.0.1:1/a",
    "SHADOWPRICE_HOSTS": "market.example.org",
    "SHADOWPRICE_ORIGINS": "https://market.example.org",
    "SHADOWPRICE_PROXIES": "127.0.0.1",
}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        (SQLITE | {"has_broker": False}, []),
        ({"is_behind_tls": False, "has_proxies": False}, []),
        ({"debug": True}, ["SHADOWPRICE_DEBUG"]),
        ({"key": ""}, ["SHADOWPRICE_SECRET_KEY"]),
        ({"key": "k" * (LEAST_KEY - 1)}, ["SHADOWPRICE_SECRET_KEY"]),
        ({"hosts": ["a", "*"]}, ["SHADOWPRICE_HOSTS"]),
        (SQLITE, ["DATABASE_URL"]),
        ({"has_broker": False}, ["REDIS_URL"]),
        ({"has_proxies": False}, ["SHADOWPRICE_PROXIES"]),
        ({"debug": True, "has_broker": False}, ["SHADOWPRICE_DEBUG", "REDIS_URL"]),
    ],
)
def test_each_unsafe_setting_is_named(changes: dict[str, Any], names: list[str]) -> None:
    found = problems(**(SAFE | changes))
    assert [text.partition(":")[0] for text in found] == names
    if names:
        with pytest.raises(WrongSettings) as error:
            refuse(found)
        assert all(name in str(error.value) for name in names)
    else:
        refuse(found)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Problems of the variables that a test reads."""
    found: list[str] = []
    monkeypatch.setattr(environment, "wrong", found)
    return found


@pytest.mark.parametrize(
    ("read", "right", "others"),
    [
        (environment.flag, {"": False, "0": False, "1": True}, ["true", "yes", "on", " 1", "2"]),
        (lambda name: environment.flag(name, default=True), {"": True, "0": False, "1": True}, ["false"]),
        (lambda name: environment.whole(name, 6), {"": 6, "1": 1, "40": 40}, ["0", "-1", "1.5", "1e3", "9" * 11]),
        (lambda name: environment.number(name, 2.0, least=0.5), {"": 2.0, "0.5": 0.5, "3": 3.0}, ["0", "nan", "inf"]),
        (lambda name: environment.matching(name, "2/second", *environment.RATE), {"": "2/second", "9/day": "9/day"},
         ["5", "0/second", "5/fortnight"]),
        (lambda name: environment.several(name, "a,b", pattern=r"\S+", expected="names"),
         {"": ["a", "b"], "c, d ,": ["c", "d"]}, ["a b"]),
    ],
)  # fmt: skip
def test_a_value_that_a_variable_does_not_expect_is_noted_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
    wrong: list[str],
    read: Callable[[str], Any],
    right: dict[str, Any],
    others: list[str],
) -> None:
    for text, value in right.items():
        monkeypatch.setenv("SHADOWPRICE_X", text)
        assert read("SHADOWPRICE_X") == value
    assert wrong == []
    for text in others:
        monkeypatch.setenv("SHADOWPRICE_X", text)
        read("SHADOWPRICE_X")
    assert [line.partition(": expected ")[0] for line in wrong] == ["SHADOWPRICE_X"] * len(others)
    assert all(line.endswith(f", got {text!r}") for line, text in zip(wrong, others, strict=True))


@pytest.mark.parametrize(
    "url", ["mail.example.org", "http://mail", "smtp://", "smtp://u:pw@host:x", "smtp://u:pw@h:70000"]
)
def test_an_address_of_an_email_server_is_checked_and_not_shown(wrong: list[str], url: str) -> None:
    assert not environment.email_server(url).hostname
    [line] = wrong
    assert line.startswith("SHADOWPRICE_EMAIL_URL: expected smtp, ")
    assert url not in line


@pytest.mark.parametrize("url", ["", "smtp://mail", "smtps://u:p%40w@mail.example.org:465", "smtp+tls://u:p@[::1]:587"])
def test_an_address_of_an_email_server_may_have_a_user_and_a_port(wrong: list[str], url: str) -> None:
    assert bool(environment.email_server(url).hostname) == bool(url)
    assert wrong == []


@pytest.mark.parametrize(
    "url", ["market", "mysql://u:pw@host/name", "postgres://u:pw@host:x/name", "postgres://u:pw@host", "sqlite:///?a=1"]
)
def test_a_database_that_is_none_of_the_two_is_refused_and_its_address_not_shown(wrong: list[str], url: str) -> None:
    environment.database(url)
    [line] = wrong
    assert line.startswith("DATABASE_URL: expected sqlite:///file or postgres://")
    assert url not in line


def test_an_option_that_postgresql_does_not_have_is_named(wrong: list[str]) -> None:
    environment.database("postgres://u:pw@host/name?sslmode=require&assume_role=market")
    assert wrong == []
    environment.database("postgres://u:pw@host/name?sslmode=require&conn_max_age=60")
    assert wrong == ['DATABASE_URL: expected options of PostgreSQL, got invalid connection option "conn_max_age"']


def test_a_value_that_an_option_of_postgresql_does_not_have_is_named(wrong: list[str]) -> None:
    environment.database("postgres://u:pw@host/name?sslmode=verify-full&connect_timeout=5&target_session_attrs=any")
    assert wrong == []
    environment.database("postgres://u:pw@host/name?sslmode=banana&connect_timeout=soon")
    modes = "disable|allow|prefer|require|verify-ca|verify-full"
    assert wrong == [
        "DATABASE_URL: expected connect_timeout=[0-9]{1,9}, got soon",
        f"DATABASE_URL: expected sslmode={modes}, got banana",
    ]


def test_a_file_of_sqlite_needs_a_directory(tmp_path: Path, wrong: list[str]) -> None:
    environment.database(f"sqlite:///{tmp_path}/rows.sqlite3")
    assert wrong == []
    for path in (tmp_path, tmp_path / "none" / "rows.sqlite3"):
        environment.database(f"sqlite:///{path}")
        assert wrong.pop() == f"DATABASE_URL: expected a file in a directory that exists, got {path}"


@pytest.mark.parametrize(
    "url",
    [
        "redis",
        "http://h",
        "redis://",
        "redis://:pw@h:x",
        "redis://:pw@h:0",
        "redis://:pw@h:1/a",
        "redis://h x",
        "unix://",
        "unix:///run/redis.sock?virtual_host=1",
        "redis://h:6379/0?retries=3",
        "rediss://h?ssl_cert_reqs=perhaps",
        "rediss://h?ssl_cert_reqs=none&timeout=3",
    ],
)
def test_a_broker_that_is_none_is_refused_and_its_address_not_shown(wrong: list[str], url: str) -> None:
    environment.broker(url)
    assert wrong == ["REDIS_URL: expected redis://:password@host:port/number, got another address"]


@pytest.mark.parametrize("url", ["", "redis://h", "rediss://:p%40w@[::1]:6379/15", "unix:///run/redis.sock?db=1"])
def test_a_broker_may_have_a_password_a_port_and_a_number(wrong: list[str], url: str) -> None:
    assert environment.broker(url) == url
    assert wrong == []


@pytest.mark.parametrize(
    ("url", "connection", "expected"),
    [
        ("redis://:pw@h:1/2", Connection, {"host": "h", "port": 1, "password": "pw", "db": 2}),
        ("unix:///run/redis.sock", UnixDomainSocketConnection, {"path": "/run/redis.sock", "db": 0}),
        (
            "unix://:pw@/run/redis.sock?db=3",
            UnixDomainSocketConnection,
            {"path": "/run/redis.sock", "password": "pw", "db": 3},
        ),
        ("rediss://h:1/2", SSLConnection, {"host": "h", "db": 2, "ssl_cert_reqs": CERT_REQUIRED}),
        (
            "rediss://h?ssl_ca_certs=/ca.pem",
            SSLConnection,
            {"ssl_cert_reqs": CERT_REQUIRED, "ssl_ca_certs": "/ca.pem"},
        ),
        ("rediss://h?ssl_cert_reqs=none", SSLConnection, {"ssl_cert_reqs": CERT_NONE}),
    ],
)
def test_celery_connects_to_the_same_broker_and_checks_its_certificate(
    monkeypatch: pytest.MonkeyPatch, wrong: list[str], url: str, connection: type, expected: dict[str, Any]
) -> None:
    monkeypatch.setattr("redis.client.Redis.ping", lambda *_: True)  # nobody listens there
    assert environment.broker(url) == url
    with Celery(broker=environment.broker_of_celery(url), set_as_current=False).connection_for_write() as opened:
        channel: Any = opened.default_channel
        pool = channel.client.connection_pool
    assert issubclass(pool.connection_class, connection)
    assert expected.items() <= pool.connection_kwargs.items()
    assert wrong == []


def test_a_directory_is_absolute_and_an_empty_value_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHADOWPRICE_X", "")
    assert environment.directory("SHADOWPRICE_X", tmp_path / "a" / "b", is_made=True) == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    monkeypatch.setenv("SHADOWPRICE_X", "c")
    assert environment.directory("SHADOWPRICE_X", tmp_path) == tmp_path / "c"
    assert not (tmp_path / "c").exists()
    assert wrong == []


@pytest.mark.parametrize("is_made", [False, True])
def test_a_file_in_the_place_of_a_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str], *, is_made: bool
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SHADOWPRICE_X", str(tmp_path / "file"))
    environment.directory("SHADOWPRICE_X", tmp_path, is_made=is_made)
    monkeypatch.setenv("SHADOWPRICE_X", str(tmp_path / "file" / "below" / "it"))
    environment.directory("SHADOWPRICE_X", tmp_path, is_made=is_made)
    expected = f"SHADOWPRICE_X: expected a directory that this user can make and write, got {tmp_path}/file"
    assert [line.startswith(expected) for line in wrong] == [True, True]


@pytest.mark.parametrize("issuer", ["https://[sso", "https://", "https:///path", "https://sso example", "https://s:x"])
def test_an_issuer_that_is_no_address_is_named(issuer: str) -> None:
    found = environment.single_sign_on_problems(issuer=issuer, client="c", client_secret="s", has_passwords=True)
    assert found == [f"SHADOWPRICE_OIDC_ISSUER: expected an https address, got {issuer}"]


@pytest.mark.parametrize("origin", ["https://[market", "https://user@market", "https://market:x", "https://market?a"])
def test_an_origin_that_is_no_address_is_named(origin: str, monkeypatch: pytest.MonkeyPatch, wrong: list[str]) -> None:
    right = ["https://market.example.org", "https://*.example.org", "http://[::1]:8000"]
    monkeypatch.setenv("SHADOWPRICE_ORIGINS", ",".join([*right, origin]))
    environment.several("SHADOWPRICE_ORIGINS", pattern=environment.ORIGIN, expected="addresses")
    assert wrong == [f"SHADOWPRICE_ORIGINS: expected addresses, got {origin!r}"]


def test_one_error_names_each_wrong_variable_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    values = {
        "DATABASE_URL": "mysql://a/b",
        "REDIS_URL": "redis://h:x",
        "SHADOWPRICE_SECRET_KEY_FILE": str(tmp_path / "none"),
        "SHADOWPRICE_METRICS": str(tmp_path / "file"),
        "SHADOWPRICE_EXECUTION": str(tmp_path / "file"),
        "SHADOWPRICE_ARCHIVES": str(tmp_path / "file"),
        "NUMBA_CACHE_DIR": str(tmp_path / "file"),
        "SHADOWPRICE_HOSTS": "http://market.example.org",
        "SHADOWPRICE_EMAIL_FROM": "nobody",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318",
        "OTEL_TRACES_SAMPLER": "some",
        "OTEL_TRACES_SAMPLER_ARG": "2",
        "SHADOWPRICE_READS": "many",
    }
    done = libraries().complete(["python", "manage.py", "check"], env=python_env(tmp_path, **values), seconds=60)
    assert done.returncode != 0
    error = f" {done.stderr}"
    assert [name for name in values if error.count(f" {name}: expected ") != 1] == []


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = python_env(tmp_path) | {"SHADOWPRICE_VAR": str(tmp_path / "file" / "var")}
    done = libraries().complete(["python", "manage.py", "check"], env=env, seconds=60)
    assert done.stderr.startswith("SHADOWPRICE_VAR: expected a directory")


def test_a_data_directory_that_cannot_be_written_is_named_in_one_line() -> None:
    env = python_env(Path("/proc"), SHADOWPRICE_SECRET_KEY="k" * LEAST_KEY)  # not even root can write there
    done = libraries().complete(["python", "manage.py", "check"], env=env, seconds=60)
    assert done.returncode == 1
    assert done.stderr.startswith("SHADOWPRICE_VAR: expected a directory that this user can write, got /proc: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["python", "manage.py", "serve"],
        ["celery", "-A", "config", "worker"],
        ["celery", "-A", "config", "beat"],
        ["uvicorn", "config.asgi:application"],
        ["python", "-c", "import config.wsgi"],
    ],
    ids=" ".join,
)
def test_each_process_says_in_one_line_which_setting_is_wrong(command: list[str], tmp_path: Path) -> None:
    done = libraries().complete(command, env=python_env(tmp_path, SHADOWPRICE_DEBUG="true"), seconds=60)
    assert done.returncode == 1
    assert done.stderr == "SHADOWPRICE_DEBUG: expected 0 or 1, got 'true'.\n"


def test_no_message_shows_the_key() -> None:
    assert "tooshort" not in " ".join(problems(**(SAFE | {"key": "tooshort"})))


def test_a_secret_comes_from_its_variable_or_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str]
) -> None:
    file = tmp_path / "key"
    file.write_text("from the file\n")
    monkeypatch.delenv("REDIS_URL", raising=False)
    assert secret("REDIS_URL", "default") == "default"
    monkeypatch.setenv("REDIS_URL_FILE", str(file))
    assert secret("REDIS_URL") == "from the file"
    assert wrong == []
    monkeypatch.setenv("REDIS_URL", "from the variable")
    secret("REDIS_URL")
    assert wrong == ["REDIS_URL: expected a value or REDIS_URL_FILE, got both"]
    monkeypatch.delenv("REDIS_URL_FILE")
    assert secret("REDIS_URL") == "from the variable"
    monkeypatch.setenv("REDIS_URL", "")
    assert secret("REDIS_URL", "default") == "default"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda file: None, "expected a file that can be read"),
        (lambda file: file.write_text(" \n"), "the empty file"),
        (lambda file: file.write_bytes(b"\xff"), "expected a file that can be read"),
        (lambda file: file.mkdir(), "expected a file that can be read"),
    ],
)
def test_a_file_without_a_secret_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str], make: Callable[[Path], object], words: str
) -> None:
    file = tmp_path / "key"
    make(file)
    monkeypatch.delenv("SHADOWPRICE_SECRET_KEY", raising=False)
    monkeypatch.setenv("SHADOWPRICE_SECRET_KEY_FILE", str(file))
    secret("SHADOWPRICE_SECRET_KEY")
    [line] = wrong
    assert words in line
    assert line.startswith(f"SHADOWPRICE_SECRET_KEY_FILE: expected {'a secret' if 'empty' in words else 'a'}")
    assert str(file) in line


def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(own_key, [tmp_path / "key"] * 8))) == 1


def test_an_empty_file_of_the_key_is_filled(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    assert own_key(tmp_path / "key") == (tmp_path / "key").read_text()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda file: file.write_text("short"), "expected at least 50 characters, got 5"),
        (lambda file: file.mkdir(), "expected a key, or a file"),
        (lambda file: file.symlink_to("elsewhere"), "expected a key, or a file"),
        (lambda file: file.write_bytes(b"\xff" * 64), "expected a key, or a file"),
    ],
)
def test_a_file_of_the_key_that_has_none_is_named(tmp_path: Path, make: Callable[[Path], object], words: str) -> None:
    make(tmp_path / "key")
    with pytest.raises(WrongSettings, match=words) as error:
        own_key(tmp_path / "key")
    assert str(tmp_path / "key") in str(error.value)


@pytest.mark.slow
def test_the_deployment_check_is_clean_and_reads_secrets_from_files(tmp_path: Path) -> None:
    names = ("SHADOWPRICE_SECRET_KEY", "REDIS_URL", "SHADOWPRICE_METRICS_TOKEN")
    values = ("".join(chr(97 + i % 26) for i in range(64)), "redis://127.0.0.1:1/0", "of the scrape")
    for name, value in zip(names, values, strict=True):
        (tmp_path / name).write_text(value)
    files = {f"{name}_FILE": str(tmp_path / name) for name in names}
    command = ["python", "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    env = python_env(tmp_path, **FULL, **files)
    done = libraries().complete(command, env=env, seconds=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no issues" in done.stdout
    refused = libraries().complete(command, env=env | {"SHADOWPRICE_DEBUG": "1"}, seconds=60)
    assert refused.returncode != 0
    assert "SHADOWPRICE_PRODUCTION is 1: SHADOWPRICE_DEBUG: expected 0, got 1" in refused.stderr


def test_every_process_of_the_compose_file_is_in_production() -> None:
    ours = [one for name, one in SERVICES.items() if name not in ("postgres", "redis")]
    assert all(one["environment"]["SHADOWPRICE_PRODUCTION"] == "1" for one in ours)


@pytest.mark.parametrize(
    ("path", "status"), [("/livez", 200), ("/login/", 301), ("/api/v1/clusters", 301), ("/api/v1/progress", 401)]
)
def test_behind_tls_all_but_what_is_asked_within_is_redirected(
    db: None, settings: LazySettings, path: str, status: int
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 60
    ask = Client().post if path.endswith("progress") else Client().get
    answer = ask(path)
    assert answer.status_code == status
    assert "Strict-Transport-Security" not in answer.headers
    if status == 301:
        assert answer.headers["Location"] == f"https://testserver{path}"
        assert Client().get(path, secure=True).headers["Strict-Transport-Security"] == "max-age=60"
