"""Documents of demo clusters, each drawn from a seed by the settings of a paper."""

from demo.clusters.edge_cloud import edge_cloud_document, queues_document
from demo.clusters.gpu_servers import gpu_servers_document
from demo.clusters.this_machine import mixed_servers_here, two_pools_here
from demo.clusters.two_pools import two_pools_document

__all__ = [
    "edge_cloud_document",
    "gpu_servers_document",
    "mixed_servers_here",
    "queues_document",
    "two_pools_document",
    "two_pools_here",
]
