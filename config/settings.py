"""Settings. The default is one command on one machine: SQLite, a web process and its worker.

DATABASE_URL and REDIS_URL turn the same code into web and worker processes on Postgres and Redis.
"""

import os
import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pythonjsonlogger.core import RESERVED_ATTRS

from config.environment import (
    HOST,
    ORIGIN,
    RATE,
    broker,
    broker_of_celery,
    database,
    directory,
    email_server,
    flag,
    folder_of_data,
    has_traces,
    matching,
    networks,
    number,
    own_key,
    problems,
    refuse,
    secret,
    several,
    single_sign_on_problems,
    whole,
    wrong,
)
from config.kernels import beside_sources

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = directory("SHADOWPRICE_VAR", BASE_DIR / "var", is_made=True)
refuse(wrong)  # the others are files below it
STATIC_ROOT = folder_of_data(VAR_DIR, "static")  # WhiteNoise warns of a directory that is not there
EXECUTION_DIR = directory("SHADOWPRICE_EXECUTION", VAR_DIR / "execution")
"""Directory of the files of jobs that run; the servers of a cluster must see it under the same path."""

# All processes share one cache of compiled kernels; the compiler, here and in child processes, reads the environment.
if not beside_sources(BASE_DIR / "scheduling"):
    os.environ.setdefault("NUMBA_CACHE_DIR", str(VAR_DIR / "kernels"))
if os.environ.get("NUMBA_CACHE_DIR"):
    directory("NUMBA_CACHE_DIR", VAR_DIR / "kernels", is_made=True)

DEBUG = flag("SHADOWPRICE_DEBUG")
PRODUCTION = flag("SHADOWPRICE_PRODUCTION")
"""Whether settings that are for development or for one machine only are refused."""
SECRET_KEY = secret("SHADOWPRICE_SECRET_KEY")
SECRET_KEY_FALLBACKS = [key for key in secret("SHADOWPRICE_SECRET_KEY_FALLBACKS").split(",") if key]
"""Earlier secret keys, newest first: what they have signed and encrypted is still read."""
ALLOWED_HOSTS = several(
    "SHADOWPRICE_HOSTS", "localhost,127.0.0.1,[::1]", pattern=HOST, expected="host names, without http:// and port"
)
# Behind a proxy that speaks TLS: the addresses as browsers see them, such as https://market.example.org.
CSRF_TRUSTED_ORIGINS = several(
    "SHADOWPRICE_ORIGINS", pattern=ORIGIN, expected="addresses such as https://market.example.org"
)

PROXIES = networks("SHADOWPRICE_PROXIES")
"""Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed; none by default."""
METRICS_ADDRESSES = networks("SHADOWPRICE_METRICS_ADDRESSES")
"""Addresses or networks that may read `/metrics` without a token; none by default."""
WEBHOOK_NETWORKS = networks("SHADOWPRICE_WEBHOOK_NETWORKS")
"""Addresses or networks that webhooks may reach though they are not public, also without TLS; none by default."""

DATABASE = database(secret("DATABASE_URL", f"sqlite:///{VAR_DIR / 'shadowprice.sqlite3'}"))
REDIS_URL = broker(secret("REDIS_URL"))
EMBEDDED = not REDIS_URL
"""True when `manage.py serve` starts the worker itself and no broker is installed."""
ARCHIVE_DIR = (
    directory("SHADOWPRICE_ARCHIVES", VAR_DIR / "archives")
    if EMBEDDED or os.environ.get("SHADOWPRICE_ARCHIVES")
    else None
)
"""Directory of the archives of markets. With a broker there is none by itself: that of a container would be lost."""
HAS_OWN_KEY = bool(SECRET_KEY)
IS_BEHIND_TLS = any(origin.startswith("https://") for origin in CSRF_TRUSTED_ORIGINS)
if PRODUCTION:
    found_problems = problems(
        debug=DEBUG,
        key=SECRET_KEY,
        hosts=ALLOWED_HOSTS,
        engine=DATABASE["ENGINE"],
        has_broker=not EMBEDDED,
        is_behind_tls=IS_BEHIND_TLS,
        has_proxies=bool(PROXIES),
    )
    wrong += [f"SHADOWPRICE_PRODUCTION is 1: {problem}" for problem in found_problems]
elif not HAS_OWN_KEY and not EMBEDDED:
    wrong.append("SHADOWPRICE_SECRET_KEY: expected a secret key that all processes have, got none")
elif not HAS_OWN_KEY:
    SECRET_KEY = own_key(VAR_DIR / "secret-key")

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_BEHIND_TLS
# Without a trusted proxy nothing says that a request came by TLS, and every answer would be a redirect.
SECURE_SSL_REDIRECT = IS_BEHIND_TLS and bool(PROXIES)
SECURE_REDIRECT_EXEMPT = [r"^(livez|healthz|readyz|metrics)$", r"^api/v1/progress$"]
"""Addresses that are asked within the installation, without the proxy."""
_HSTS_S = whole("SHADOWPRICE_HSTS_S", 2592000, least=0)
SECURE_HSTS_SECONDS = _HSTS_S if SECURE_SSL_REDIRECT else 0
# Other names below the host's are not this service's to decide.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# Under ASGI every request has a thread of its own, which keeps nothing: `cluster.database.postgresql.kept` does.
DATABASES: dict[str, Any] = {"default": dict(DATABASE)}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # IMMEDIATE takes the write lock when a transaction begins, so that a read-then-write never loses an update.
    DATABASES["default"]["ENGINE"] = "cluster.database.sqlite3"
    # Tests keep their database in memory, which their tools only do by themselves for the engine of Django.
    DATABASES["default"]["TEST"] = {"NAME": ":memory:"}
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        # Each request has a connection. By default each keeps 2 MB of pages and 128 statements of 20 kB, which the
        # process did not give back. The system has the pages in its own cache. The write-ahead log grows while an audit
        # reads, and its file would keep that size; usually it has 4 MB.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-256; "
        "PRAGMA journal_size_limit=16000000;",
        "cached_statements": 16,
    }
elif DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    DATABASES["default"]["ENGINE"] = "cluster.database.postgresql"
    DATABASES["default"].setdefault("OPTIONS", {}).setdefault("connect_timeout", 5)
DATABASE_LIMITS: dict[str, dict[str, float]] = {
    "request": {"lock": number("SHADOWPRICE_LOCK_TIMEOUT_S", 5.0, least=0.001), "statement": 20.0, "idle": 60.0},
    "worker": {"lock": 20.0, "statement": 120.0, "idle": 600.0},
}
"""Seconds that a statement may wait for a lock, that it may take, and that a transaction may be open without one: for
requests and for tasks of workers. Commands such as `migrate` have no limits. SQLite knows the first only.
"""

INSTALLED_APPS = [
    "cluster.apps.FailedLoginsConfig",
    "cluster.apps.OperatorAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "auditlog",
    "django_filters",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "cluster.apps.ClusterConfig",
    "accounts",
    "auctions",
    "execution",
    "demo",
    "studies",
    "frontend",
]

MIDDLEWARE = [
    "web.logs.name_requests",
    "web.metrics.count_answers",
    "web.storable.refuse_nul",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "frontend.middleware.security_headers",
    "cluster.changes.name_actors",
    "axes.middleware.AxesMiddleware",
]
TRACES = has_traces()
"""Whether spans are sent to a receiver; the names of OpenTelemetry's variables are those of all its programs."""
if "OTEL_EXPORTER_OTLP_HEADERS_FILE" in os.environ:  # OpenTelemetry, here and in child processes, reads no file
    os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = secret("OTEL_EXPORTER_OTLP_HEADERS")
    del os.environ["OTEL_EXPORTER_OTLP_HEADERS_FILE"]
if TRACES:
    MIDDLEWARE.insert(MIDDLEWARE.index("web.logs.name_requests") + 1, "web.tracing.trace_requests")

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "accounts.passwords.LongEnough"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "accounts.backends.PasswordsOff",
    "django.contrib.auth.backends.ModelBackend",
]
LOGIN_LIMITS: list[tuple[list[str], int]] = [
    (["username", "ip_address"], 5),
    (["ip_address"], 30),
    (["username"], 50),
]
"""Failed logins until those with the same values are locked. The third limit stops a guesser who has many addresses;
it takes ten of them to lock a user out everywhere.
"""
AXES_COOLOFF_TIME = timedelta(minutes=30)
AXES_LOCKOUT_PARAMETERS = [names for names, _ in LOGIN_LIMITS]
AXES_HANDLER = "cluster.logins.LimitedLogins"
AXES_FAILURE_LIMIT = 1  # of these limits
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "cluster.addresses.address_of"
AXES_LOCKOUT_CALLABLE = "web.problems.locked_login"
AXES_DISABLE_ACCESS_LOG = True  # of successful logins
AXES_ENABLE_ADMIN = False  # cluster.admin has its page
AXES_VERBOSE = False
# Neither logged nor stored with the form; some people type their password as their name. Addresses are logged.
AXES_SENSITIVE_PARAMETERS = ["username", "csrfmiddlewaretoken"]
OIDC_ISSUER = os.environ.get("SHADOWPRICE_OIDC_ISSUER", "").rstrip("/")
"""Address of the OpenID Connect provider, as its tokens name it; empty if there is no single sign-on."""
OIDC_CLIENT_ID = os.environ.get("SHADOWPRICE_OIDC_CLIENT_ID", "")
OIDC_CLIENT_SECRET = secret("SHADOWPRICE_OIDC_CLIENT_SECRET")
OIDC_NAME = os.environ.get("SHADOWPRICE_OIDC_NAME", "single sign-on")
"""The provider's name on the login page."""
OIDC_NEW_ACCOUNTS = flag("SHADOWPRICE_OIDC_NEW_ACCOUNTS")
"""Whether every person that the provider lets in gets an account."""
OIDC_MATCH_EMAIL = flag("SHADOWPRICE_OIDC_MATCH_EMAIL")
"""Whether a first login finds an account by its e-mail address, if the provider has verified that."""
PASSWORD_LOGINS = flag("SHADOWPRICE_PASSWORD_LOGINS", default=True)
"""Whether users may log in with passwords."""
wrong += single_sign_on_problems(
    issuer=OIDC_ISSUER, client=OIDC_CLIENT_ID, client_secret=OIDC_CLIENT_SECRET, has_passwords=PASSWORD_LOGINS
)
EMAIL_TIMEOUT = 10
EMAIL_SERVER = email_server(secret("SHADOWPRICE_EMAIL_URL"))
EMAIL_HOST = EMAIL_SERVER.hostname or ""
"""Empty if no e-mail server is configured: invitations are links to copy, and passwords are reset by operators."""
EMAIL_PORT = EMAIL_SERVER.port or {"smtps": 465, "smtp+tls": 587}.get(EMAIL_SERVER.scheme, 25)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = unquote(EMAIL_SERVER.username or ""), unquote(EMAIL_SERVER.password or "")
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_SERVER.scheme == "smtp+tls", EMAIL_SERVER.scheme == "smtps"
DEFAULT_FROM_EMAIL = matching(
    "SHADOWPRICE_EMAIL_FROM",
    "shadowprice@localhost",
    r"[^\s@<>]+@[^\s@<>]+|[^<>\r\n]*<[^\s@<>]+@[^\s@<>]+>",
    "an address such as market@example.org",
)
CREDIT_PRICE_TEXT = matching(
    "SHADOWPRICE_CREDIT_PRICE",
    "",
    r"[0-9]{1,9}(\.[0-9]{1,6})? [A-Z]{3}",
    "a price and a currency such as 0.25 EUR",
)
CREDIT_PRICE = (Decimal(CREDIT_PRICE_TEXT.split()[0]), CREDIT_PRICE_TEXT.split()[1]) if CREDIT_PRICE_TEXT else None
"""Price of one credit and its currency, shown beside credits of teams; None if the operator states none."""
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

STATIC_URL = "static/"
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "frontend.finders.PlotlyFinder",
]
WHITENOISE_USE_FINDERS = True  # embedded: no collectstatic step before the first page

BODY_LIMIT_BYTES = 1_000_000
DATA_UPLOAD_MAX_MEMORY_SIZE = BODY_LIMIT_BYTES
PLAN_BODY_LIMIT_BYTES = 8_000_000
"""Instances of split learning are tables: five numbers for each of up to 100,000 pairs."""
LARGE_PATHS = re.compile(
    r"(/api/v1)?/(plans|traces)|/api/v1/clusters/[^/]+/programs|/markets/[^/]+/programs|/admin/execution/program/"
)
"""Paths whose bodies may be as large: traces of public clusters have a row for each of ten thousands of jobs, and
programs come in archives.
"""

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounts.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["accounts.permissions.WithinToken"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["web.parsers.StrictJSONParser"],
    "EXCEPTION_HANDLER": "web.problems.exception_handler",
    "DEFAULT_THROTTLE_CLASSES": ["web.throttles.CallerThrottle"],
    "DEFAULT_THROTTLE_RATES": {
        "caller": matching("SHADOWPRICE_RATE", "300/second", *RATE),
        "progress": matching("SHADOWPRICE_PROGRESS_RATE", "2/second", *RATE),
        "password": matching("SHADOWPRICE_PASSWORD_RATE", "30/minute", *RATE),
        "made_up_token": matching("SHADOWPRICE_MADE_UP_TOKEN_RATE", "60/minute", *RATE),
    },
    "NUM_PROXIES": 0,  # the server reads X-Forwarded-For, of proxies it trusts
    "URL_FORMAT_OVERRIDE": None,
    "NON_FIELD_ERRORS_KEY": "",  # errors of a whole object bear the object's own name
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
# Only the counts of these limits are in the cache of each process. By default it holds 300 and drops those that were
# used longest ago, so that a limit of a minute did not hold while more callers came.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 20_000},
    }
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Shadowprice",
    "DESCRIPTION": "Bid for a shared training cluster. Times in seconds, sizes in MB (1 MB = 8 Mbit), rates in Mbit/s.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "StateEnum": "auctions.models.BidState",
        "TrainingStateEnum": "execution.models.TrainingState",
        "GenerationStateEnum": "execution.models.GenerationState",
        "ProcessStateEnum": "execution.models.ProcessState",
        "RoleEnum": "auctions.api.bid_shapes.ROLES",
        "TeamRoleEnum": "accounts.models.ROLES",
        "JobStateEnum": "studies.background.models.JobState",
        "PolicyEnum": "scheduling.registry.POLICIES",
        "MetricEnum": "studies.experiments.metrics.METRICS",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "web.openapi.close_requests",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

REQUESTS_AT_ONCE: dict[str, int] = {
    "read": whole("SHADOWPRICE_READS", 6),
    "write": whole("SHADOWPRICE_WRITES", 12),
}
"""Number of requests of each kind that the server answers at a time, at most half of them of one user; others wait,
and 10 seconds at most. A request that waits for a decision (`Prefer: wait`) and an event stream are in none of them.
"""

WAITING_BIDS = whole("SHADOWPRICE_WAITING_BIDS", 1000)
"""Largest number of bids of one user that wait for their decisions in a market."""
WAITING_BIDS_OF_TEAM = whole("SHADOWPRICE_WAITING_BIDS_OF_TEAM", 3000)
"""Largest number of bids of one team that wait for their decisions in a market."""
OPEN_BIDS = whole("SHADOWPRICE_OPEN_BIDS", 2000)
"""Largest number of bids of one user that wait for their decisions or stand in a market."""
OPEN_BIDS_OF_TEAM = whole("SHADOWPRICE_OPEN_BIDS_OF_TEAM", 6000)
"""Largest number of bids of one team that wait for their decisions or stand in a market."""

WEBHOOK_KEPT_DAYS = whole("SHADOWPRICE_WEBHOOK_KEPT_DAYS", 30)
"""Days for which messages of webhooks that were delivered or given up are kept."""

STREAMS = whole("SHADOWPRICE_STREAMS", 500, least=0)
STREAMS_OF_ONE_USER = whole("SHADOWPRICE_STREAMS_OF_ONE_USER", 20, least=0)
"""Largest number of open event streams of a web process; a page without a stream asks every two seconds."""

HEAD_S = whole("SHADOWPRICE_HEAD_S", 10)
"""Seconds in which the head of a request must arrive."""
BODY_S = whole("SHADOWPRICE_BODY_S", 60)
"""Seconds in which its body must arrive, and for which a client may take nothing of what was sent to it."""
IDLE_S = whole("SHADOWPRICE_IDLE_S", 5)
"""Seconds for which a connection stays open after an answer without another request."""
CONNECTIONS = whole("SHADOWPRICE_CONNECTIONS", 800)
CONNECTIONS_OF_ONE_ADDRESS = whole("SHADOWPRICE_CONNECTIONS_OF_ONE_ADDRESS", 400)
"""Largest number of connections of a web process, and of one client's address, to which those of `PROXIES` do not
count. A process may have 1,024 files by default, and each connection is one.
"""

METRICS_DIR = directory("SHADOWPRICE_METRICS", VAR_DIR / "metrics", is_made=True)
"""Directory in which the processes of this host count; None to count in the memory of each process."""
METRICS_TOKEN = secret("SHADOWPRICE_METRICS_TOKEN")
LEAST_FREE_MB = number("SHADOWPRICE_LEAST_FREE_MB", 200.0, least=0)
"""Free space on a disk of this host below which `/readyz` reports the disk as full."""

OPEN_WORK: dict[str, int] = {
    "plans": whole("SHADOWPRICE_OPEN_PLANS", 50, least=0),
    "plan_runs": whole("SHADOWPRICE_OPEN_PLAN_RUNS", 3, least=0),
    "counterfactuals": whole("SHADOWPRICE_OPEN_COUNTERFACTUALS", 20, least=0),
    "runs": whole("SHADOWPRICE_OPEN_RUNS", 1000, least=0),
}
"""Largest number of each kind of background job of one user that wait or are computed."""
OPEN_WORK_OF_TEAM = whole("SHADOWPRICE_OPEN_WORK_OF_TEAM", 3)
"""Factor by which the members of one team together may have more."""

PLANS_AT_ONCE = 1 if EMBEDDED else None
"""Number of plans that are computed at a time; None for the number of their workers."""
RUNS_AT_ONCE = 2 if EMBEDDED else None
"""The same of the runs of experiments."""

CELERY_BROKER_URL = broker_of_celery(REDIS_URL) if REDIS_URL else "memory://localhost/"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
# Bounds take seconds, plans and runs minutes, and webhooks wait for services of others: in queues of their own they
# never stand before decisions.
CELERY_TASK_ROUTES = {
    "auctions.tasks.certify": {"queue": "bounds"},
    "auctions.tasks.measure": {"queue": "bounds"},
    "auctions.tasks.archive_old_events": {"queue": "bounds"},
    "auctions.tasks.deliver_webhooks": {"queue": "webhooks"},
    "auctions.tasks.forget_deliveries": {"queue": "webhooks"},
    "studies.tasks.compute_plans": {"queue": "plans"},
    "studies.tasks.compute_plan_runs": {"queue": "plans"},
    "studies.tasks.compute_counterfactuals": {"queue": "plans"},
    "studies.tasks.compute_runs": {"queue": "runs"},
}
QUEUES = ("celery", *sorted({route["queue"] for route in CELERY_TASK_ROUTES.values()}))
"""Queues of tasks, each of which needs a worker; decisions are in the first one."""
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A submission must not wait for a broker that is gone: one quick try, then the sweep finds the bid.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_CONNECTION_TIMEOUT = 1.0
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
        "socket_connect_timeout": 1.0,
        "socket_timeout": 1.0,  # a broker that hangs accepts connections and answers nothing
    }
    if REDIS_URL
    else {"polling_interval": 0.02}  # the in-memory transport's default is a second
)
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR_DIR / "celerybeat-schedule")
CELERY_BEAT_SYNC_EVERY = 1  # the schedule file's age is the health of beat
CELERY_BEAT_SCHEDULE = {
    "sweep": {
        "task": "auctions.tasks.sweep",
        "schedule": number("SHADOWPRICE_SWEEP_S", 2.0, least=0.01),
        "options": {"expires": 10},  # what piled up while no worker ran would only be done over and over
    },
    "certify": {"task": "auctions.tasks.certify", "schedule": 2.0, "options": {"expires": 2}},
    "webhooks": {"task": "auctions.tasks.deliver_webhooks", "schedule": 2.0, "options": {"expires": 2}},
    "deliveries": {"task": "auctions.tasks.forget_deliveries", "schedule": 3600.0, "options": {"expires": 3600}},
    "plans": {"task": "studies.tasks.compute_plans", "schedule": 5.0, "options": {"expires": 5}},
    "plan_runs": {"task": "studies.tasks.compute_plan_runs", "schedule": 5.0, "options": {"expires": 5}},
    "counterfactuals": {"task": "studies.tasks.compute_counterfactuals", "schedule": 5.0, "options": {"expires": 5}},
    "runs": {"task": "studies.tasks.compute_runs", "schedule": 5.0, "options": {"expires": 5}},
    "measure": {"task": "auctions.tasks.measure", "schedule": 60.0, "options": {"expires": 60}},
    "archive": {"task": "auctions.tasks.archive_old_events", "schedule": 300.0, "options": {"expires": 300}},
}

LOG_FORMAT = matching("SHADOWPRICE_LOG_FORMAT", "line", "line|json", "line or json")
LOG_LEVEL = matching("SHADOWPRICE_LOG", "WARNING", "DEBUG|INFO|WARNING|ERROR", "DEBUG, INFO, WARNING or ERROR")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "web.logs.Lines", "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s%(ids)s"},
        "json": {
            "()": "pythonjsonlogger.json.JsonFormatter",
            "fmt": "%(levelname)s %(name)s %(process)d %(message)s",
            "rename_fields": {"levelname": "level", "name": "logger"},
            "timestamp": "time",
            "reserved_attrs": [*RESERVED_ATTRS, "ids", "request"],  # Django adds the request's object
        },
    },
    "filters": {
        "ids": {"()": "web.logs.Ids"},
        "briefly": {"()": "cluster.database.busy.Briefly"},
        "beat_briefly": {"()": "config.logs.BeatBriefly"},
        "refused_briefly": {"()": "web.logs.RefusedBriefly"},
        "not_ready_briefly": {"()": "web.logs.NotReadyBriefly"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["briefly", "beat_briefly", "refused_briefly", "not_ready_briefly", "ids"],
        }
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
}

refuse(wrong)
