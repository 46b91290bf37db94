"""Django's handle on this room."""

from typing import Any

from django.apps import AppConfig, apps
from django.apps.registry import Apps
from django.contrib.admin.apps import AdminConfig
from django.db.models.signals import post_migrate


class ClusterConfig(AppConfig):
    """The `cluster` room."""

    name = "cluster"

    def ready(self) -> None:
        """Keep the group of operators, with its permissions, whenever tables are migrated."""
        post_migrate.connect(_keep_operator_group, dispatch_uid="operators")


class OperatorAdminConfig(AdminConfig):
    """Django's admin on the operators' site."""

    default_site = "cluster.operator_site.OperatorSite"


def _keep_operator_group(sender: AppConfig, apps: Apps = apps, **_kwargs: Any) -> None:
    from cluster.operators import APPS, ensure_operator_group  # noqa: PLC0415 (needs the app registry)

    has_tables = "auth" in apps.app_configs  # not after `migrate cluster` in an empty database
    if sender.label in APPS and has_tables:  # the permissions of this app have just been made
        ensure_operator_group()
