"""Faults that the simulation must find: each is a change to the product that would lose, repeat or mix rows,
or exceed a bound. A fault is applied to a method during a test; the product has no code for them."""

from __future__ import annotations

from tests.simulation.faults_of_copies import COPIES
from tests.simulation.faults_of_execution import EXECUTION
from tests.simulation.faults_of_recovery import RECOVERY
from tests.simulation.seeded_fault import Fault

FAULTS: tuple[Fault, ...] = (*EXECUTION, *COPIES, *RECOVERY)
