"""The fluid data plane: exact for any steps, and never ahead of its input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.availability import Policy
from domain.simulation.fluid import NEVER, Fluid
from domain.simulation.generator import TopologyRecipe, generate_topology
from domain.simulation.watch import QueryWatch
from domain.topology import Topology, TopologySpec
from domain.topology.spec import InputSpec, OperatorSpec


def chain(*names: str) -> Topology:
    """Operators of one partition, each fed by the one before; the last is a query."""
    return Topology(
        TopologySpec(
            name="chain",
            operators=tuple(
                OperatorSpec(
                    name=name,
                    kind="map",
                    inputs=(InputSpec(source=names[i - 1]),) if i else (),
                    output=i == len(names) - 1,
                )
                for i, name in enumerate(names)
            ),
        )
    )


def test_a_restored_partition_replays_and_catches_up() -> None:
    fluid = Fluid([chain("A", "B")], speed=4.0, at=0.0)
    lost = fluid.indices(["chain/B[0]"])
    fluid.advance(10.0)
    fluid.stop(lost)
    assert fluid.caught_up().tolist() == [10.0, NEVER]
    fluid.advance(100.0)
    assert fluid.position.tolist() == [100.0, 10.0]
    fluid.start(lost, 4.0)
    # 96 seconds behind, catching up at three seconds a second.
    assert fluid.caught_up()[1] == pytest.approx(132.0)
    fluid.advance(110.0)
    assert fluid.position[1] == pytest.approx(44.0)
    fluid.advance(132.0)
    assert fluid.position[1] == pytest.approx(132.0)
    fluid.advance(200.0)
    assert fluid.position.tolist() == [200.0, 200.0]


def test_nothing_gets_ahead_of_what_feeds_it() -> None:
    fluid = Fluid([chain("A", "B", "C")], speed=3.0, at=0.0)
    everything = fluid.indices(fluid.names)
    fluid.advance(10.0)
    fluid.stop(everything)
    fluid.start(fluid.indices(["chain/C[0]"]), 5.0)
    fluid.advance(60.0)
    assert fluid.position[2] == 5.0, "its input stands still"
    fluid.start(fluid.indices(["chain/A[0]", "chain/B[0]"]), 2.0)
    assert fluid.position[2] == 5.0
    fluid.advance(61.0)
    assert fluid.position.tolist() == [5.0, 5.0, 5.0]
    fluid.advance(62.0)
    assert fluid.position.tolist() == [8.0, 8.0, 8.0]
    assert fluid.whole().all()


def test_what_is_downstream_of_a_lost_partition_waits_and_goes_on_where_it_was() -> None:
    fluid = Fluid([chain("A", "B")], speed=2.0, at=0.0)
    source = fluid.indices(["chain/A[0]"])
    fluid.advance(20.0)
    fluid.stop(source)
    fluid.advance(30.0)
    assert fluid.position.tolist() == [20.0, 20.0]
    fluid.start(source, 10.0)
    fluid.advance(33.0)
    assert fluid.position.tolist() == [16.0, 20.0], "what B had done is not done again"
    fluid.advance(36.0)
    assert fluid.position.tolist() == [22.0, 22.0]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 20))
def test_the_number_of_steps_makes_no_difference(data: st.DataObject, seed: int) -> None:
    graph = generate_topology(TopologyRecipe(queries=5, size=4, name="g"), seed).topology
    coarse, fine = (Fluid([graph], speed=3.0, at=0.0) for _ in range(2))
    now = 0.0
    some = st.lists(st.integers(0, len(coarse.names) - 1), max_size=6, unique=True)
    for _ in range(data.draw(st.integers(1, 4))):
        stop = np.array(data.draw(some), dtype=np.int64)
        start = np.array(data.draw(some), dtype=np.int64)
        back = data.draw(st.floats(0.0, 20.0))
        for fluid in (coarse, fine):
            fluid.stop(stop)
            fluid.start(start, max(0.0, now - back))
        predicted = coarse.caught_up()
        before = coarse.position.copy()
        now += data.draw(st.floats(0.5, 30.0))
        coarse.advance(now)
        for part in np.linspace(fine.now, now, 7)[1:]:
            fine.advance(float(part))
        assert np.allclose(coarse.position, fine.position)
        assert (coarse.position >= before - 1e-9).all(), "nothing goes back by itself"
        assert (coarse.position <= now + 1e-9).all(), "nothing is ahead of the time"
        level = coarse.position >= now - 1e-6
        assert (level == (predicted <= now + 1e-6)).all(), (
            "the partitions that have caught up are those predicted"
        )


def test_a_query_is_available_once_its_mean_relative_latency_is() -> None:
    """The closed form against adding up relative latencies."""
    policy = Policy(theta=1.2, window=5.0)
    fluid = Fluid([chain("A")], speed=4.0, at=0.0)
    watch = QueryWatch(fluid, [1.0], policy)
    everything = fluid.indices(fluid.names)
    fluid.advance(10.0)
    fluid.stop(everything)
    watch.changed()
    fluid.advance(40.0)
    fluid.start(everything, 5.0)
    watch.changed()
    predicted = float(watch.available_at()[0])
    step, seen, moment = 0.01, [], None
    while moment is None:
        fluid.advance(fluid.now + step)
        seen.append(float(watch.relative()[0]))
        recent = seen[-round(policy.window / step) :]
        if len(seen) * step >= policy.window and sum(recent) / len(recent) < policy.theta:
            moment = fluid.now
    assert moment == pytest.approx(predicted, abs=0.05)
    watch.finish()
    ((begin, end),) = watch.gaps[0]
    assert begin == 10.0
    assert end == pytest.approx(predicted)


def test_gaps_that_touch_are_one() -> None:
    fluid = Fluid([chain("A")], speed=2.0, at=0.0)
    watch = QueryWatch(fluid, [1.0], Policy())
    everything = fluid.indices(fluid.names)
    for moment, change in ((10.0, "stop"), (20.0, "start"), (25.0, "stop"), (30.0, "start")):
        fluid.advance(moment)
        if change == "stop":
            fluid.stop(everything)
        else:
            fluid.start(everything, 5.0)
        watch.changed()
    watch.finish()
    ((begin, end),) = watch.gaps[0]
    assert begin == 10.0
    assert end > 55.0


def test_time_does_not_run_backwards() -> None:
    fluid = Fluid([chain("A")], speed=2.0, at=5.0)
    with pytest.raises(ValueError, match="before 5"):
        fluid.advance(4.0)
    with pytest.raises(ValueError, match="never catches up"):
        Fluid([chain("A")], speed=1.0, at=0.0)
