"""Migrations lead to the models, both for databases of older versions and for new ones."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from django.apps import apps
from django.conf import settings
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from tests.processes import ROOT, START_S, manage, python_env


@pytest.mark.parametrize("for_new_databases", [True, False])
def test_migrations_lead_to_the_models(for_new_databases: bool) -> None:
    """For a new database one migration may stand for several, which an older database went through one by one."""
    loader = MigrationLoader(None, replace_migrations=for_new_databases)
    if not for_new_databases:
        for one, migration in loader.replacements.items():
            loader.graph.remove_replacement_node(one, migration.replaces)
    # Migrations of libraries may name a function that another test has replaced.
    own = {app.label for app in apps.get_app_configs() if Path(app.path).parent == settings.BASE_DIR}
    assert "auctions" in own
    assert "auth" not in own
    detector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    missing = detector.changes(graph=loader.graph)
    found = {app: [step.describe() for one in steps for step in one.operations] for app, steps in missing.items()}
    assert {app: steps for app, steps in found.items() if app in own} == {}


@pytest.mark.services
def test_a_new_database_has_the_parameter_of_the_table_of_bids(postgres_tables: str) -> None:
    with closing(psycopg2.connect(postgres_tables)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = 'auctions_bid'")
        assert cursor.fetchone() == (["autovacuum_vacuum_scale_factor=0.05"],)


KILLED = """
import os
from django.core.management import execute_from_command_line
from django.db.migrations.recorder import MigrationRecorder
record = MigrationRecorder.record_applied
def killed(recorder, app, name):
    if (app, name) == ("auctions", "0007_budgets_of_teams"):
        os._exit(9)
    record(recorder, app, name)
MigrationRecorder.record_applied = killed
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
execute_from_command_line(["manage.py", "migrate", "-v0"])
"""


@pytest.mark.slow
def test_a_new_database_whose_migration_was_killed_is_migrated_afterwards(tmp_path: Path) -> None:
    env = python_env(tmp_path)
    assert subprocess.run([sys.executable, "-c", KILLED], env=env, cwd=ROOT, timeout=START_S).returncode == 9
    manage("migrate", "-v0", env=env)
    assert manage("migrate", "--check", env=env) == ""
