"""Fields of bodies that name what a user may see."""

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty

from accounts.rights import visible_clusters
from cluster.models import Cluster
from scheduling.model.validation import shown
from web.fields import Text


class VisibleCluster(Text):
    """The name of a cluster that exists for the user of the context; its value is the cluster.

    `kept` in the context is a cluster that what is changed has already: it may be named, too.
    """

    def run_validation(self, data: Any = empty) -> Any:
        """Return the cluster, None if none is named; raises ValidationError if there is none of this name."""
        name = super().run_validation(data)
        if name is None:
            return None
        kept: Cluster | None = self.context.get("kept")
        if kept is not None and kept.name == name:
            return kept
        found = visible_clusters(self.context["user"]).filter(name=name).first()
        if found is None:
            raise ValidationError(f"expected the name of a cluster, got {shown(name)}")
        return found
