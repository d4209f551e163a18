"""The state that the evidence about one node speaks for; the rules are explained in `detector.py`."""

from __future__ import annotations

from domain.recovery.evidence import REFUSED
from domain.recovery.liveness import Limits, WatchedNode


def verdict(
    node: WatchedNode,
    limits: Limits,
    *,
    now: float,
    connected_at: float,
    grace_until: float,
    others_heard: bool,
) -> tuple[str, str]:
    """The state, and the evidence in words. connected_at: since when our own session works. others_heard:
    whether heartbeats of other nodes arrive."""
    heard_at = max(node.heard_at, connected_at)
    silence = now - heard_at
    in_grace = now < grace_until
    heard = f"its heartbeat has been silent for {silence:.1f} s"
    ended = node.evidence.loss(
        now, heard_at=heard_at, worked_at=node.worked_at, patience=limits.refused, in_grace=in_grace
    )
    if ended:
        return "lost", ended
    unreachable = ", ".join(sorted(node.absent_in))
    patience = limits.session_timeout if in_grace else limits.absent
    if unreachable and others_heard and silence >= patience:
        return "lost", f"the driver of {unreachable} reports all its partitions absent, and {heard}"
    if not node.listed:
        if silence >= limits.gone and not in_grace:
            return "lost", f"its registration is gone from ZooKeeper, and {heard}"
        if in_grace:
            return "suspect", (
                "its registration is missing, but ZooKeeper was away until a moment ago: "
                f"it has {grace_until - now:.0f} s to register again"
            )
        return "suspect", "its registration is gone from ZooKeeper, but its heartbeat was heard just now"
    if silence >= limits.hung and now - node.worked_at >= limits.hung and not in_grace:
        return "lost", f"it is registered, but {heard} and no driver has seen it working since"
    if silence >= limits.doubtful:
        return "suspect", f"it is registered, but {heard}"
    if node.evidence.is_cut(now):
        return "suspect", f"{REFUSED}, which nothing else confirms yet"
    return "alive", "registered, and its heartbeat is heard"
