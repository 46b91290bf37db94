"""Django's configuration of this app."""

from typing import Any

from axes.apps import AppConfig as AxesConfig
from django.apps import AppConfig, apps
from django.apps.registry import Apps
from django.contrib.admin.apps import AdminConfig
from django.core.signals import request_started
from django.db.models.signals import post_migrate

from cluster.database import limits, watched


class ClusterConfig(AppConfig):
    """The `cluster` app."""

    name = "cluster"

    def ready(self) -> None:
        """Keep the group of operators whenever tables are migrated, and limit what requests ask of the database."""
        from django.contrib.auth.models import Group, User  # noqa: PLC0415 (needs the app registry)

        from cluster import changes, guards  # noqa: PLC0415
        from cluster.models import Cluster  # noqa: PLC0415

        changes.connect()
        changes.record(
            User,
            hidden=("password",),
            exclude_fields=["last_login", "date_joined"],
            m2m_fields={"groups", "user_permissions"},
        )
        changes.record(Group, m2m_fields={"permissions"})
        changes.record(Cluster, fields=changes.CLOCK)
        guards.register(check=_no_problems, listener=changes.note_document)
        post_migrate.connect(_keep_operator_group, dispatch_uid="operators")
        request_started.connect(_begin_request, dispatch_uid="requests")


def _no_problems(*_: object) -> list[str]:
    """The check beside a listener that has none."""
    return []


class FailedLoginsConfig(AxesConfig):  # type: ignore[misc]
    """django-axes, as the admin calls it."""

    verbose_name = "Failed logins"


class OperatorAdminConfig(AdminConfig):
    """Django's admin on the operators' site."""

    default_site = "cluster.operator_site.OperatorSite"


def _begin_request(**_kwargs: Any) -> None:
    limits.use("request")
    watched.count_from_now()


def _keep_operator_group(sender: AppConfig, apps: Apps = apps, **_kwargs: Any) -> None:
    from cluster.operators import APPS, ensure_operator_group  # noqa: PLC0415 (needs the app registry)

    has_tables = "auth" in apps.app_configs  # not after `migrate cluster` in an empty database
    if sender.label in APPS and has_tables:  # the permissions of this app have just been made
        ensure_operator_group()
