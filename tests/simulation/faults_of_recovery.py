"""Faults that schedules with the coordinator, or with CPU that is short, must find."""

from __future__ import annotations

from domain.execution.epoch_machine import EpochMachine
from domain.planning.placement import Placer
from domain.recovery import machine, making_room, overload
from domain.recovery.incremental import Incremental
from domain.recovery.machine import IncidentMachine
from tests.simulation.seeded_fault import Fault

RETURNED_AT_ONCE = Fault(
    "what was parked again returns at once",
    machine,
    "may_return_elsewhere",
    "memory.overloads[name] <= 1",
    "True",
    "scarce",
)
COSTS_STAY = Fault(
    "costs that proved too low stay",
    IncidentMachine,
    "_raise_costs",
    "raised == kept",
    "raised",
    "scarce",
    besides=RETURNED_AT_ONCE,
)
PARKED_FOR_GOOD = Fault(
    "what could not return for ten minutes stays parked",
    overload,
    "_whatever_room",
    "now - case.applied_at < LONGEST_HOLD",
    "True",
    "scarce",
)
RECOVERY = (
    Fault(
        "a node's bound is exceeded by one percent",
        Placer,
        "__init__",
        "self.capacity * max_utilisation - load",
        "self.capacity * max_utilisation * 1.01 - load",
        "incidents",
        found_by=3,
    ),
    Fault(
        "buffers are kept after the checkpoint that makes them superfluous",
        EpochMachine,
        "_checkpoint_ended",
        "self._drop_buffers = self._drop_buffers or self.tracker.buffers_kept",
        "pass",
        "incidents",
        found_by=5,
    ),
    Fault(
        "a wave that is too much stays as it is",
        machine,
        "relief_for",
        "parks = _parks(case, seen, load)",
        "parks = frozenset()",
        "scarce",
        found_by=15,
    ),
    Fault(
        "what is parked does not return to nodes that have room, nor after ten minutes",
        machine,
        "queries_with_room",
        "back.add(query)",
        "pass",
        "scarce",
        besides=PARKED_FOR_GOOD,
        found_by=152,
    ),
    Fault(
        "no node more is asked for while queries are parked, and they do not return after ten minutes",
        Incremental,
        "_parked",
        "case.name in situation.limited",
        "False",
        "scarce",
        besides=PARKED_FOR_GOOD,
        found_by=154,
    ),
    Fault(
        "nodes take too much again, costs that were too low stay, and what was parked again returns at once",
        machine,
        "limits_of",
        "round(left[node] or share * now[node], 4)",
        "1e9",
        "scarce",
        besides=COSTS_STAY,
        found_by=15,
    ),
    Fault(
        "room is made by a topology of which something is to leave a drained node",
        making_room,
        "_prices",
        "situation.moving(name) or ",
        "",
        "pieces",
        found_by=5,
    ),
)
