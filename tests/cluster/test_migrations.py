"""Migrations lead to the models, both for databases of older versions and for new ones."""

import pytest
from django.apps import apps
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState


@pytest.mark.parametrize("for_new_databases", [True, False])
def test_migrations_lead_to_the_models(for_new_databases: bool) -> None:
    """For a new database one migration may stand for several, which an older database went through one by one."""
    loader = MigrationLoader(None, replace_migrations=for_new_databases)
    detector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    missing = detector.changes(graph=loader.graph)
    assert {app: [step.describe() for one in found for step in one.operations] for app, found in missing.items()} == {}
