"""Clusters as everybody may read them: their market, servers, machine types and models."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth.models import User

from accounts.rights import visible_clusters
from auctions.domain.bid_check import VALUE_KEYS
from auctions.domain.bid_conversion import policy_in_force
from auctions.kernels import warming
from auctions.models import Market
from cluster.models import Cluster, MachineType, ModelProfile, Resource, Server


@dataclass(frozen=True)
class ClusterReading:
    """A cluster and its market."""

    cluster: Cluster
    market: Market | None

    @property
    def has_market(self) -> bool:
        """Whether there is a market."""
        return self.market is not None

    @property
    def is_open(self) -> bool:
        """Whether the market takes bids."""
        return self.market is not None and self.market.is_open

    @property
    def compiling(self) -> str:
        """The kernels that are being compiled while bids wait, in words; empty if there are none."""
        return "" if self.market is None else warming.words(self.market.pk)


class ClusterDetails(ClusterReading):
    """A cluster with the names that a bid may use."""

    @cached_property
    def _policy(self) -> type[Any] | None:
        return None if self.market is None else policy_in_force(self.cluster)

    @property
    def resources(self) -> list[str]:
        """Names of the resources."""
        return list(Resource.objects.filter(cluster=self.cluster).values_list("name", flat=True))

    @property
    def machine_types(self) -> list[MachineType]:
        """Types of workers and parameter servers."""
        return list(MachineType.objects.filter(cluster=self.cluster))

    @property
    def servers(self) -> list[Server]:
        """The servers."""
        return list(Server.objects.filter(cluster=self.cluster))

    @property
    def models(self) -> list[str]:
        """Names of the models that have a profile."""
        return list(ModelProfile.objects.filter(cluster=self.cluster).values_list("name", flat=True))

    @property
    def value_key(self) -> str | None:
        """The key that states the value of a completion; None without a market."""
        return None if self._policy is None else VALUE_KEYS[self._policy.objective]

    @property
    def architectures(self) -> list[str]:
        """The architectures of jobs that the policy runs; none without a market."""
        return [] if self._policy is None else sorted(self._policy.architectures)


def every(viewer: User) -> list[ClusterReading]:
    """Return the clusters that exist for a user, by name."""
    found = visible_clusters(viewer).select_related("market")
    return [ClusterReading(one, getattr(one, "market", None)) for one in found]


def details(cluster: Cluster) -> ClusterDetails:
    """Return a cluster with the names that a bid may use."""
    return ClusterDetails(cluster, Market.objects.filter(cluster=cluster).first())
