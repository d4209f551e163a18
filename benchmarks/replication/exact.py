"""The best plan of every budget, by looking at all sets of partitions."""

from __future__ import annotations

import numpy as np

from domain.replication import FidelityModel


def best_fidelities(model: FidelityModel) -> list[float]:
    """The highest fidelity for 0, 1, ... partitions; at most about 16 partitions, or memory runs out."""
    count = len(model.partitions)
    sets = np.arange(1 << count, dtype=np.uint32)
    alive = (sets[:, None] >> np.arange(count, dtype=np.uint32) & 1).astype(bool)
    fidelity = model.fidelity(alive)
    sizes = alive.sum(axis=1)
    best = np.zeros(count + 1)
    np.maximum.at(best, sizes, fidelity)
    return [float(one) for one in np.maximum.accumulate(best)]
