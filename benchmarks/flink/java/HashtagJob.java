package resurge.benchmark;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The fifteen hashtag queries. One exchange by key; behind it everything is chained, so that no row of a query is
 * serialised between operators.
 *
 * <p>Arguments: file of the texts, directory of the outputs, tuples per second, origin in microseconds, slices, and
 * `shared` if O4 to O14 are to be cut from one operator that keeps the newest windows for all of them, or `separate`.
 */
public final class HashtagJob {
    /** Subscriptions of O4 to O14 to O0 to O3, one bit each. */
    private static final int[] VIEWS = {
        0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b0110, 0b1100, 0b1001, 0b0111, 0b1110, 0b1111
    };

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        PacedSource source = new PacedSource(
                arguments[0],
                Long.parseLong(arguments[3]),
                Long.parseLong(arguments[2]),
                Integer.parseInt(arguments[4]));
        WatermarkStrategy<String> everySecond =
                WatermarkStrategy.<String>forGenerator(context -> new EverySecond());
        DataStream<Result> windows = environment
                .fromSource(source, everySecond, "Source", Types.STRING)
                .uid("Source")
                .flatMap(new Hashtags())
                .returns(Types.STRING)
                .name("Parser")
                .keyBy(key -> key, Types.STRING)
                .process(new Windows())
                .returns(Types.POJO(Result.class))
                .name("Windows")
                .uid("Windows");
        for (int number = 0; number < Windows.SIZE.length; number++) {
            final int aggregate = number;
            write(windows.filter(row -> row.aggregate == aggregate && row.count > 0), number, arguments[1]);
        }
        boolean shared = arguments[5].equals("shared");
        DataStream<Result> changes = shared ? latest(windows, "Latest") : null;
        for (int index = 0; index < VIEWS.length; index++) {
            final int view = VIEWS[index];
            int number = Windows.SIZE.length + index;
            FilterFunction<Result> subscribed = row -> (view >> row.aggregate & 1) == 1;
            DataStream<Result> rows =
                    shared ? changes.filter(subscribed) : latest(windows.filter(subscribed), "O" + number);
            write(rows, number, arguments[1]);
        }
        environment.execute("hashtags");
    }

    private static DataStream<Result> latest(DataStream<Result> windows, String name) {
        return DataStreamUtils.reinterpretAsKeyedStream(windows, row -> row.key, Types.STRING)
                .process(new Latest())
                .returns(Types.POJO(Result.class))
                .name(name)
                .uid(name);
    }

    private static void write(DataStream<Result> rows, int number, String directory) {
        String name = "O" + number;
        rows.transform("Output of " + name, Types.VOID, new Output(directory + "/" + name)).uid("Output of " + name);
    }

    /** A watermark when event time reaches the next full second: no window ends between two. */
    private static final class EverySecond implements WatermarkGenerator<String> {
        private long second = Long.MIN_VALUE;

        @Override
        public void onEvent(String text, long timestamp, WatermarkOutput output) {
            long reached = Math.floorDiv(timestamp, 1000L);
            if (reached > second) {
                second = reached;
                output.emitWatermark(new Watermark(reached * 1000 - 1));
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }
}
