package resurge.benchmark;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * O4 to O14: the counts of each key in the newest window of the aggregates it subscribes to; emits what changes. The
 * windows say with count 0 when a key leaves.
 */
final class Latest extends KeyedProcessFunction<String, Result, Result> {
    private transient ValueState<int[]> newest;

    @Override
    public void open(OpenContext context) {
        newest = getRuntimeContext()
                .getState(new ValueStateDescriptor<>(
                        "newest", PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO));
    }

    @Override
    public void processElement(Result row, Context context, Collector<Result> out) throws Exception {
        int[] counts = newest.value();
        if (counts == null) {
            if (row.count == 0) {
                return;
            }
            counts = new int[Windows.SIZE.length];
        }
        if (counts[row.aggregate] == row.count) {
            return;
        }
        counts[row.aggregate] = row.count;
        out.collect(row);
        for (int count : counts) {
            if (count != 0) {
                newest.update(counts);
                return;
            }
        }
        newest.clear();
    }
}
