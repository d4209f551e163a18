package resurge.benchmark;

import java.util.Arrays;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * O0 to O3 in one operator: all four count in the same panes of five seconds, so that a tuple is counted once. When a
 * window ends, each key with a count is emitted, and a key that the window before had and this one has not with
 * count 0, which is for the operators behind and not part of the output.
 *
 * <p>State of a key: the number of the first pane, and the counts of it and the panes after it.
 */
final class Windows extends KeyedProcessFunction<String, String, Result> {
    /** Seconds; window i slides by SLIDE[i]. */
    static final int[] SIZE = {10, 20, 30, 60};

    static final int[] SLIDE = {5, 10, 10, 20};
    private static final int PANE = 5;
    /** A window and the one before it reach that many panes back. */
    private static final int REACH = (60 + 20) / PANE;

    private transient ValueState<int[]> panes;
    private transient Result result;

    @Override
    public void open(OpenContext context) {
        panes = getRuntimeContext()
                .getState(new ValueStateDescriptor<>(
                        "panes", PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO));
        result = new Result();
    }

    @Override
    public void processElement(String key, Context context, Collector<Result> out) throws Exception {
        int pane = (int) Math.floorDiv(context.timestamp(), PANE * 1000L);
        int[] counts = panes.value();
        boolean earlier = counts == null || pane < counts[0];
        if (counts == null) {
            counts = new int[] {pane, 0};
        } else if (pane < counts[0]) {
            int[] longer = new int[counts.length + counts[0] - pane];
            System.arraycopy(counts, 1, longer, 1 + counts[0] - pane, counts.length - 1);
            longer[0] = pane;
            counts = longer;
        } else if (pane - counts[0] + 1 >= counts.length) {
            counts = Arrays.copyOf(counts, pane - counts[0] + 2);
        }
        counts[1 + pane - counts[0]]++;
        panes.update(counts);
        if (earlier) {
            context.timerService().registerEventTimeTimer((pane + 1) * (PANE * 1000L) - 1);
        }
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Result> out) throws Exception {
        int[] counts = panes.value();
        if (counts == null) {
            return;
        }
        int end = (int) ((timestamp + 1) / (PANE * 1000L));
        result.key = context.getCurrentKey();
        result.end = (long) end * PANE;
        for (int aggregate = 0; aggregate < SIZE.length; aggregate++) {
            int slide = SLIDE[aggregate] / PANE;
            if (end % slide != 0) {
                continue;
            }
            int size = SIZE[aggregate] / PANE;
            int count = sum(counts, end - size, end);
            if (count > 0 || sum(counts, end - slide - size, end - slide) > 0) {
                result.aggregate = aggregate;
                result.count = count;
                out.collect(result);
            }
        }
        int first = counts[0];
        int from = first;
        while (from - first + 1 < counts.length && (from <= end - REACH || counts[1 + from - first] == 0)) {
            from++;
        }
        if (from - first + 1 >= counts.length) {
            panes.clear();
            return;
        }
        if (from > first) {
            int[] shorter = Arrays.copyOfRange(counts, from - first, counts.length);
            shorter[0] = from;
            panes.update(shorter);
        }
        context.timerService().registerEventTimeTimer(timestamp + PANE * 1000L);
    }

    private static int sum(int[] counts, int from, int to) {
        int start = Math.max(from - counts[0], 0);
        int stop = Math.min(to - counts[0], counts.length - 1);
        int sum = 0;
        for (int index = start; index < stop; index++) {
            sum += counts[1 + index];
        }
        return sum;
    }
}
