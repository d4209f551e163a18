"""The sentences of an incident's story."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from domain.planning import natural_key
from domain.recovery import facts
from domain.recovery.policy import MOVE

_NUMBER = re.compile(r"\d+(\.\d+)?")

SHOWN = 12


def listed(names: Collection[str]) -> str:
    """`a, b and c`; long lists are cut and counted."""
    ordered = sorted(names, key=natural_key)
    if len(ordered) > SHOWN:
        return f"{', '.join(ordered[:SHOWN])} and {len(ordered) - SHOWN} more"
    if len(ordered) < 2:
        return "".join(ordered)
    return f"{', '.join(ordered[:-1])} and {ordered[-1]}"


def same_but_for_figures(one: str, other: str) -> bool:
    """Whether two sentences differ in nothing but their numbers."""
    return _NUMBER.sub("0", one) == _NUMBER.sub("0", other)


def counted(number: int, thing: str, things: str = "") -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {things or thing + 's'}"


def nodes_lost(nodes: Sequence[str], affected: Mapping[str, Collection[str]], grown: bool) -> str:
    start = f"Lost {listed(nodes)}" + (" while the recovery was under way" if grown else "") + "."
    if not affected:
        return f"{start} No partition ran there; only spare capacity is gone."
    down = "; ".join(
        f"{name}: {counted(len(partitions), 'partition')} down ({listed(partitions)})"
        for name, partitions in affected.items()
    )
    return f"{start} {down}."


def partitions_lost(topology: str, partitions: Collection[str]) -> str:
    return (
        f"{counted(len(partitions), 'partition')} of {topology} stopped working although the nodes are "
        f"alive: {listed(partitions)}."
    )


def avoided(nodes: Mapping[str, float]) -> str:
    """nodes: for how many seconds each is left alone."""
    told = ", ".join(f"{node} for {duration(seconds)}" for node, seconds in nodes.items())
    return f"No plan uses {told}, unless it joins anew before or an operator asks to recover now."


def refused_by_driver(refused: facts.Refused) -> str:
    start = (
        f"The driver of {refused.topology} cannot apply plan {refused.generation}: checkpoint "
        f"{refused.checkpoint}, which it starts from, is not kept any more."
    )
    if not refused.restorable:
        return (
            f"{start} Nor is any other, so there is nothing to plan from. Bring back the topology's epoch "
            "log and its checkpoints from a backup, or undeploy it and deploy it again to start from its "
            "first tuple."
        )
    newest = max(refused.restorable)
    start_from = f"checkpoint {newest}" if newest else "the empty state"
    return f"{start} The driver can go back to {start_from}, so the plan is made again."


def standbys_took_over(nodes: Sequence[str], successors: int) -> str:
    """successors: how many of the nodes that were asked for become standbys instead."""
    names = listed(sorted(nodes, key=natural_key))
    one = len(nodes) == 1
    text = f"{names} {'was a standby' if one else 'were standbys'} and {'takes' if one else 'take'} over."
    if not successors:
        return text
    what = (
        "The next node that comes becomes a standby"
        if successors == 1
        else (f"The next {successors} nodes that come become standbys")
    )
    return f"{text} {what} in {'its' if one else 'their'} place."


def node_returned(node: str, evidence: str, kept: Mapping[str, Collection[str]]) -> str:
    start = f"{node} is back: {evidence}. Its processes never stopped."
    if kept:
        what = "; ".join(f"{name}: {listed(partitions)}" for name, partitions in kept.items())
        return f"{start} No plan had moved these partitions yet, so they stay where they are ({what})."
    return f"{start} Its partitions already have another home, so it counts as an empty node."


def taken_over(topology: str, acting: Mapping[str, str]) -> str:
    nodes = listed(set(acting.values()))
    return f"Replicas of {listed(acting)} of {topology} act, on {nodes}: these partitions need no recovery."


def tentative(topology: str, shares: Mapping[str, float]) -> str:
    """shares: query -> share of its output that is left."""
    least, most = round(100 * min(shares.values())), round(100 * max(shares.values()))
    share = f"{least} %" if least == most else f"{least} to {most} %"
    verb, whose, they = ("goes", "Its", "it has") if len(shares) == 1 else ("go", "Their", "they have")
    return (
        f"{listed(shares)} of {topology} {verb} on with about {share} of the input. "
        f"{whose} output is tentative until {they} caught up."
    )


def method_chosen(topology: str, method: str, why: str) -> str:
    if method == MOVE:
        return f"Partitions of {topology} are moved with their state, because {why}."
    return f"{topology} is recovered by the {method} method, because {why}."


def proposed(topology: str, proposal: str, reason: str, overtaken: str | None) -> str:
    text = f"Plan proposed for {topology}, to be confirmed as {proposal}: {reason}"
    if overtaken is None:
        return text
    return f"Proposal {overtaken} was confirmed, but the situation has changed: it is not carried out. {text}"


def restore_refused(topology: str, actor: str, checkpoint: int) -> str:
    return (
        f"{actor} asked to restore checkpoint {checkpoint} of {topology}, but partitions of it are down: "
        "recover it first."
    )


def restore_overtaken(topology: str, generation: int, incident: int) -> str:
    return (
        f"plan {generation} of topology {topology!r} is under way in incident {incident}: ask again when the "
        "topology has recovered"
    )


def recovery_asked(topology: str, actor: str, reason: str, forced: bool, checkpoint: int | None) -> str:
    if checkpoint is not None:
        return f"{actor} asked to restore checkpoint {checkpoint} of {topology}: {reason}."
    start = f"{actor} asked to recover {topology} now: {reason}."
    if forced:
        return f"{start} Nothing is down; all of it goes back to its newest checkpoint and replays."
    return f"{start} The present nodes are used without waiting for further replacements."


def drain_asked(node: str, actor: str, reason: str, affected: Mapping[str, Collection[str]]) -> str:
    """actor: empty where the policy asks."""
    start = f"{actor} is draining {node}" if actor else f"{node} is slow, so it is drained"
    start = f"{start}: {reason}."
    if not affected:
        return f"{start} Nothing runs there."
    what = "; ".join(f"{name}: {listed(partitions)}" for name, partitions in affected.items())
    return f"{start} To move: {what}."


def activated(node: str, kept: Mapping[str, Collection[str]]) -> str:
    start = f"{node} may take partitions again"
    if not kept:
        return f"{start}."
    what = "; ".join(f"{name}: {listed(partitions)}" for name, partitions in kept.items())
    return f"{start}. To stay there: {what}."


def rebalance_asked(topology: str, actor: str, reason: str, what: str) -> str:
    """actor: empty where the policy asks."""
    asked = f"{actor} asked to rebalance the partitions of {topology}"
    return f"{asked if actor else f'Partitions of {topology} can be placed better'}: {reason}. {what}"


def rebalance_refused(topology: str, actor: str) -> str:
    return (
        f"{actor} asked to rebalance the partitions of {topology}, but its recovery is under way: ask again "
        "when it has ended."
    )


def park_asked(topology: str, actor: str, reason: str, parked: Collection[str], back: Collection[str]) -> str:
    """actor: empty where the policy asks. parked: queries that stop; back: those that are to return."""
    what = [f"{listed(parked)} stop" if len(parked) > 1 else f"{listed(parked)} stops"] if parked else []
    what += [f"{listed(back)} {'return' if len(back) > 1 else 'returns'} when there is room"] if back else []
    start = f"{actor} changed which queries of {topology} are parked" if actor else topology
    return f"{start}: {reason}. {'; '.join(what)}." if what else f"{start}: {reason}."


def stays_parked(topology: str, actor: str, reason: str, queries: Collection[str]) -> str:
    stay = "They stay" if len(queries) > 1 else "It stays"
    return f"{actor} wants {listed(queries)} of {topology} parked: {reason}. {stay} so until unparked."


def nothing_to_park(topology: str, queries: Collection[str]) -> str:
    return f"{listed(queries)} of {topology} cannot be parked: other queries need all that runs for them."


def parked(topology: str, queries: Mapping[str, Collection[str]]) -> str:
    mine = queries.get(topology, ())
    return f"Nothing else of {topology} is down: {counted(len(mine), 'query', 'queries')} parked."


def too_much(topology: str, seconds: float, load: float, parked: Collection[str]) -> str:
    stop = "stop" if len(parked) > 1 else "stops"
    return (
        f"{topology} has not caught up {duration(seconds)} after its plan was applied, and cannot: each "
        f"second of input takes {load:.2f} s of work. {listed(parked)} {stop}, and its nodes take no more "
        "than the rest for now."
    )


def room_elsewhere(topology: str, back: Collection[str]) -> str:
    return f"{listed(back)} of {topology} may return: other nodes have room."


def spread(topology: str, partitions: Collection[str], joined: Collection[str]) -> str:
    have = "has" if len(joined) == 1 else "have"
    return (
        f"{listed(joined)} {have} joined before {listed(partitions)} of {topology} could begin on new nodes: "
        "these are planned again with all of them."
    )


def light_moves(topology: str, what: str) -> str:
    return f"Other nodes have more time than those that do the most of {topology}. {what}"


def room_made(queries: Mapping[str, Collection[str]]) -> str:
    """queries: that come back, by topology."""
    told = "; ".join(f"{listed(mine)} of {topology}" for topology, mine in queries.items())
    return f"Enough CPU is free for {told}, but on no single node. What runs moves first, to make room."


def slow_to_return(topology: str, seconds: float, what: str) -> str:
    return (
        f"{topology} has not caught up {duration(seconds)} after its plan was applied, and other nodes have "
        f"room. {what}"
    )


def busy(topology: str, load: float, what: str) -> str:
    return (
        f"What runs live of {topology} is too much for its nodes: each second of input takes {load:.2f} s of "
        f"work, and other nodes have room. {what}"
    )


def late(topology: str, seconds: float, what: str) -> str:
    return (
        f"Queries of {topology} are later than usual {duration(seconds)} after all of it had caught up, and "
        f"other nodes have room. {what}"
    )


def moved(generation: int) -> str:
    return f"the driver has applied plan {generation}; what has moved goes on from where it was"


def applied(generation: int, checkpoint: int, head: int) -> str:
    origin = f"checkpoint {checkpoint}" if checkpoint else "the empty state"
    return f"the driver has applied plan {generation} and replays from {origin} towards epoch {head}"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def wave_caught_up(topology: str, wave: int, partitions: Collection[str], left: int) -> str:
    work = "works" if len(partitions) == 1 else "work"
    text = f"{topology}: wave {wave} has caught up, {listed(partitions)} {work} live"
    return f"{text}; {counted(left, 'partition')} still down." if left else f"{text}."


def catching_up(queries: int) -> str:
    are = "query that failed is" if queries == 1 else "queries that failed are"
    return (
        f"Everything is restored and verified. {queries} {are} not available yet: the incident stays open "
        "until then, or until an operator accepts that."
    )


def accepted(actor: str, reason: str, queries: int) -> str:
    are = "query that failed is" if queries == 1 else "queries that failed are"
    return (
        f"{actor} accepted that {queries} {are} not available as before: {reason}. The present "
        "latency of each query becomes its usual latency."
    )


def baseline_accepted(query: str, seconds: float, times: float) -> str:
    return (
        f"The latency of {query} has been steady for {duration(seconds)} without a backlog, at {times:.2f} "
        "times the one before. It becomes the usual latency."
    )


def closed(recovered: Collection[str], took: float | None, coming: int) -> str:
    """recovered: topologies. took: seconds, if known. coming: replacements that are still expected."""
    result = f"{listed(recovered)} recovered and verified" if recovered else "nothing is left to recover"
    text = f"Closed: {result}."
    if took is not None:
        text += f" It took {duration(took)}."
    if coming:
        text += f" {counted(coming, 'replacement')} will still join as spare."
    return text
