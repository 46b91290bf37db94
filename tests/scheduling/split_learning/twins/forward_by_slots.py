"""The first step of Algorithm 1 as printed: a binary for each client, helper and slot."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from scheduling.model.types import Floats, Ints


def least(release: Ints, length: Ints, tail: Ints, y: Ints, dual: Floats, rho: float) -> float:
    """The least augmented Lagrange function (16) over x, phi and c subject to (1), (12) to (14) and (20).

    All arrays I x J; every pass has at least one slot. c_j = phi_j + sum over i of tail_ij y_ij.
    """
    helpers, clients = (int(n) for n in release.shape)
    slots = int((release + tail).max()) + int(length.max(axis=0).sum())
    count = helpers * clients

    def x(i: int, j: int, t: int) -> int:
        return (i * clients + j) * slots + t

    # Then phi_j, the makespan, and |.| of each pair.
    phi, top, off = count * slots, count * slots + clients, count * slots + clients + 1
    size = off + count
    cost = np.zeros(size)
    cost[top] = 1
    cost[off:] = rho / 2
    high = np.ones(size)
    high[phi:] = np.inf
    rows: list[tuple[dict[int, float], float, float]] = []
    for j in range(clients):
        after = float((tail[:, j] * y[:, j]).sum())
        rows.append(({top: 1, phi + j: -1}, after, np.inf))
        rows.append(({x(i, j, t): 1 / length[i, j] for i in range(helpers) for t in range(slots)}, 1, 1))
        for i in range(helpers):
            pair = off + i * clients + j
            mine = {x(i, j, t): 1.0 for t in range(slots)}
            wanted = float(y[i, j] * length[i, j])
            rows.append(({**mine, pair: -1}, -np.inf, wanted))
            rows.append(({**mine, pair: 1}, wanted, np.inf))
            for t in range(slots):
                cost[x(i, j, t)] = dual[i, j]
                rows.append(({phi + j: 1, x(i, j, t): -(t + 1)}, 0, np.inf))
                if t < release[i, j]:
                    high[x(i, j, t)] = 0
    rows += [({x(i, j, t): 1 for j in range(clients)}, 0, 1) for i in range(helpers) for t in range(slots)]
    matrix = np.zeros((len(rows), size))
    for k, (row, _, _) in enumerate(rows):
        for column, value in row.items():
            matrix[k, column] = value
    bounds = [np.array([row[k] for row in rows]) for k in (1, 2)]
    integrality = np.concatenate([np.ones(phi), np.zeros(size - phi)])
    result = milp(
        cost,
        integrality=integrality,
        bounds=Bounds(np.zeros(size), high),
        constraints=LinearConstraint(matrix, bounds[0], bounds[1]),
        options={"mip_rel_gap": 0.0},
    )
    if result.status != 0:
        raise AssertionError(f"HiGHS: {result.message}")
    return float(result.fun) - float((dual * y * length).sum())
