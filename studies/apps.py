"""Django's configuration of this app."""

from django.apps import AppConfig
from django.db.models import Model


class StudiesConfig(AppConfig):
    """The `studies` app."""

    name = "studies"

    def ready(self) -> None:
        """Record who requests and deletes studies; their states and results are no changes by anybody."""
        from cluster import changes  # noqa: PLC0415 (needs the app registry)
        from studies.models import Counterfactual, Experiment, Plan, PlanRun, Trace  # noqa: PLC0415

        labelled: tuple[type[Model], ...] = (Plan, Trace, Experiment)
        others: tuple[type[Model], ...] = (Counterfactual, PlanRun)
        for model in labelled:
            changes.record(model, fields=("owner", "label"))
        for model in others:
            changes.record(model, fields=("owner",))
