"""Types of single values that come from other processes, with the bounds in which the rest of the program, a
`datetime` and both databases can hold them. A decoder refuses what is outside."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

LATEST_MOMENT = 4_102_444_800.0
"""2100-01-01, in Unix seconds."""
LARGEST_COUNT = 2**31 - 1
LARGEST_BIG_COUNT = 2**63 - 1
LARGEST_GENERATION = 2_000_000_000
"""Below what a database can hold, so that there is always a next one."""
LARGEST_MEASURE = 1e15

NodeName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
Rack = Annotated[str, Meta(max_length=64)]
Address = Annotated[str, Meta(max_length=255)]
ApplicationId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z")]
MEMORY_PATTERN = r"^[1-9][0-9]{0,5}[mg]\Z"
Memory = Annotated[str, Meta(pattern=MEMORY_PATTERN)]
"""Of a virtual machine, such as `768m` or `2g`."""
SessionId = Annotated[str, Meta(max_length=32)]
Method = Annotated[str, Meta(max_length=16)]

Moment = Annotated[float, Meta(ge=0.0, le=LATEST_MOMENT)]
"""Unix seconds."""
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Measure = Annotated[float, Meta(ge=0.0, le=LARGEST_MEASURE)]
"""Seconds, percent, tuples per second and the like: never negative, never infinite."""
LONGEST_CYCLE = 60.0
Cycle = Annotated[float, Meta(ge=0.0, le=LONGEST_CYCLE)]
"""Seconds of input between two ends of the windows that end least often; 0 without windows. Longer ones count
as the longest."""
Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
MOST_NODES = 10_000
"""That an installation starts with."""
MOST_SLOTS = 100_000
LARGEST_CAPACITY = 100_000_000
Slots = Annotated[int, Meta(ge=1, le=MOST_SLOTS)]
Capacity = Annotated[int, Meta(ge=1, le=LARGEST_CAPACITY)]
"""CPU percent."""
BigCount = Annotated[int, Meta(ge=0, le=LARGEST_BIG_COUNT)]
Epoch = BigCount
Generation = Annotated[int, Meta(ge=0, le=LARGEST_GENERATION)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
