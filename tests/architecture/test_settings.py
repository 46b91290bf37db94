"""What the environment makes of the settings."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from config.environment import LEAST_KEY
from tests.forks import libraries
from tests.processes import ROOT, python_env

pytestmark = pytest.mark.slow


def shell(code: str, *, var: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", f"from django.conf import settings; {code}"]
    return libraries().complete(command, env=python_env(var, **env), seconds=60)


def test_each_data_directory_has_a_key_of_its_own_that_stays_and_that_its_user_alone_reads(tmp_path: Path) -> None:
    one, other = ([shell("print(settings.SECRET_KEY)", var=tmp_path / name) for _ in range(2)] for name in ("a", "b"))
    keys = [done.stdout.strip() for done in (*one, *other)]
    assert keys[0] == keys[1] == (tmp_path / "a" / "secret-key").read_text()
    assert keys[2] == keys[3] != keys[0]
    assert all(len(key) >= LEAST_KEY for key in keys)
    assert stat.S_IMODE((tmp_path / "a" / "secret-key").stat().st_mode) == 0o600


def test_a_key_that_is_named_is_used_and_none_is_made(tmp_path: Path) -> None:
    done = shell("print(settings.SECRET_KEY)", var=tmp_path / "a", SHADOWPRICE_SECRET_KEY="named")
    assert done.stdout.strip() == "named"
    assert not (tmp_path / "a" / "secret-key").exists()


def test_outside_the_embedded_mode_a_key_has_to_be_named(tmp_path: Path) -> None:
    done = shell("print(settings.SECRET_KEY)", var=tmp_path, REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode != 0
    assert "SHADOWPRICE_SECRET_KEY" in done.stderr
    assert not (tmp_path / "secret-key").exists()


def test_beyond_this_machine_a_key_has_to_be_named(tmp_path: Path) -> None:
    command = [sys.executable, "manage.py", "serve", "--host", "0.0.0.0"]
    done = subprocess.run(command, cwd=ROOT, env=python_env(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "SHADOWPRICE_SECRET_KEY" in done.stderr


@pytest.mark.parametrize("port", ["0", "-1", "65536", "99999", "web"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(CommandError, match="--port: expected a port from 1 to 65535"):
        call_command("serve", f"--port={port}")


def test_no_proxy_is_trusted_unless_it_is_named(tmp_path: Path) -> None:
    code = "print(settings.PROXIES, settings.REST_FRAMEWORK['NUM_PROXIES'])"
    assert shell(code, var=tmp_path).stdout.strip() == "[] 0"
    done = shell(code, var=tmp_path, SHADOWPRICE_PROXIES="192.0.2.1, 10.0.0.0/8")
    assert done.stdout.strip() == "['192.0.2.1', '10.0.0.0/8'] 0"


@pytest.mark.parametrize("proxies", ["1", "*", "proxy.example.org", "10.0.0.1/8"])
def test_a_proxy_that_is_no_address_is_refused(tmp_path: Path, proxies: str) -> None:
    done = shell("print(settings.PROXIES)", var=tmp_path, SHADOWPRICE_PROXIES=proxies)
    assert done.returncode != 0
    assert "SHADOWPRICE_PROXIES: expected addresses or networks" in done.stderr
    assert proxies in done.stderr


def test_one_error_names_every_variable_that_is_wrong(tmp_path: Path) -> None:
    wrong = {
        "SHADOWPRICE_PRODUCTION": "true",
        "SHADOWPRICE_HOSTS": "a b",
        "SHADOWPRICE_ORIGINS": "market.example.org",
        "SHADOWPRICE_PROXIES": "1",
        "SHADOWPRICE_READS": "0",
        "SHADOWPRICE_RATE": "many",
        "SHADOWPRICE_LOG": "loud",
        "SHADOWPRICE_OIDC_ISSUER": "http://elsewhere.example.org",
        "SHADOWPRICE_CREDIT_PRICE": "cheap",
        "REDIS_URL": "amqp://user:hidden@host",
    }
    done = shell("print(settings.DEBUG)", var=tmp_path, **wrong)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert [name for name in wrong if f"{name}: expected " not in last] == []
    assert "hidden" not in done.stderr


def test_an_address_behind_tls_is_trusted_and_its_cookies_are_secure(tmp_path: Path) -> None:
    code = "print(settings.CSRF_TRUSTED_ORIGINS, settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE)"
    assert shell(code, var=tmp_path).stdout.strip() == "[] False False"
    done = shell(code, var=tmp_path, SHADOWPRICE_ORIGINS="https://market.example.org")
    assert done.stdout.strip() == "['https://market.example.org'] True True"
