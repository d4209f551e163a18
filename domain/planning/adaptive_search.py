"""Greedy planning with adaptive shares of cost: a bounded search that scales to thousands of queries.

Definition 3 divides the cost of a partition by *all* failed queries that share it. When only some of them
can be recovered, the others will not carry their share, and queries that lean on much-shared partitions look
cheaper than they turn out. So the greedy is repeated: each round divides by a running mean of the number of
queries that shared the partition in the plans so far. A few rounds settle (this is a dual ascent on the
shares, without step sizes).

With the shares of the best round, more plans are started from queries that plan leaves out, the densest
first, alone and in pairs, up to `work` steps times queries; then each query of the winner is given up in
turn and the gap refilled, as long as that gains. The first round is plain `profit_density`.
"""

from __future__ import annotations

import numpy as np

from domain.planning.candidates import Candidates, in_batches
from domain.planning.greedy import GreedyExtension
from domain.planning.problem import Flags, Floats, Integers, RecoveryProblem
from domain.planning.proposal import Selection

ROUNDS = 10
# Rounds without a gain after which the shares have settled.
PATIENCE = 3
WORK = 20_000_000
EXCHANGES = 20
VALUABLE = 16


def adaptive_search(problem: RecoveryProblem, work: int = WORK) -> Selection:
    """The search described above. work: bound on candidates x steps x queries of the plans started from
    left-out queries."""
    best = Candidates(problem)
    sharing = problem.sharing.astype(np.float64)
    settled = GreedyExtension(problem)
    idle = 0
    for _ in range(ROUNDS):
        extension = GreedyExtension(problem, _weights(problem, sharing))
        found = extension.run()
        if best.offer(found):
            settled, idle = extension, 0
        else:
            idle += 1
        if idle == PATIENCE or len(found.order) == len(problem.queries):
            break
        carried = problem.needed.counts(np.flatnonzero(found.chosen[0]), len(sharing))
        sharing = np.maximum(1.0, (sharing + carried) / 2)
    if not best.chosen.all():
        _from_unchosen(problem, settled, best, work)
        _exchange(problem, settled, best)
    order = settled.order_of(np.flatnonzero(best.chosen))
    return best.selection(order, note=f"{best.count} candidate plans with adaptive shares")


def _weights(problem: RecoveryProblem, sharing: Floats) -> Floats:
    return np.rint(problem.bundle_cost * float(problem.weight_scale) / sharing)


def _from_unchosen(problem: RecoveryProblem, extension: GreedyExtension, best: Candidates, work: int) -> None:
    """Plans that start from queries the best one leaves out: half the work alone, half in pairs."""
    queries = len(problem.queries)
    steps = int(best.chosen.sum()) + 1
    limit = max(1, work // (queries * steps))
    covered = problem.covered(np.flatnonzero(best.chosen))
    missing = problem.needed.sums(extension.weight * ~covered)
    out = np.flatnonzero(~best.chosen & (problem.query_cost <= problem.capacity))
    density = extension.priority[out] / np.maximum(missing[out], 1e-9)
    ranked = out[np.argsort(-density, kind="stable")]
    # The most valuable ones, too: with little capacity the best plan can be one dear query.
    valuable = out[np.argsort(-problem.priorities[out], kind="stable")][:VALUABLE]
    alone = np.unique(np.concatenate([ranked[: (limit + 1) // 2], valuable]))
    for starts in in_batches(alone[:, None], queries):
        best.offer(extension.run(starts))
    pairs = _dense_pairs(problem, extension, covered, ranked, limit - len(alone))
    for starts in in_batches(pairs, queries):
        best.offer(extension.run(starts))


def _dense_pairs(
    problem: RecoveryProblem, extension: GreedyExtension, covered: Flags, ranked: Integers, limit: int
) -> Integers:
    """The pairs of left-out queries with the highest joint density given the plan [B, 2]."""
    head = ranked[: int(np.sqrt(4 * max(0, limit))) + 2]
    if limit < 1 or len(head) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    needs = problem.needs[head]
    columns = np.flatnonzero(needs.any(axis=0))
    narrow = needs[:, columns].astype(np.float64)
    cost = (narrow * problem.bundle_cost[columns]) @ narrow.T
    open_narrow = narrow * ~covered[columns]
    weight = (open_narrow * extension.weight[columns]) @ open_narrow.T
    first, second = np.triu_indices(len(head), 1)
    joint_cost = np.rint(cost[first, first] + cost[second, second] - cost[first, second])
    joint = weight[first, first] + weight[second, second] - weight[first, second]
    value = extension.priority[head[first]] + extension.priority[head[second]]
    fits = joint_cost <= problem.capacity
    density = np.where(fits, value / np.maximum(joint, 1e-9), -1.0)
    top = np.argsort(-density, kind="stable")[: min(limit, int(fits.sum()))]
    return np.stack([head[first[top]], head[second[top]]], axis=1)


def _exchange(problem: RecoveryProblem, extension: GreedyExtension, best: Candidates) -> None:
    """Give up one query at a time and refill, while that gains."""
    for _ in range(EXCHANGES):
        plan = np.flatnonzero(best.chosen)
        gained = False
        for part in in_batches(plan[:, None], len(problem.queries)):
            gained = best.offer(extension.without_each(plan, part[:, 0])) or gained
        if not gained:
            return
