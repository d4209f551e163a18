package resurge.benchmark;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.core.io.InputStatus;

/** Reads the tuples of its slices that are due, always the earliest first, so that event time never steps back. */
final class PacedReader implements SourceReader<String, Slice> {
    private static final int BATCH = 256;
    private static final long PAUSE_MILLIS = 50;
    private static final long SECOND = 1_000_000;

    private final PacedSource source;
    private final PriorityQueue<Slice> slices = new PriorityQueue<>(Comparator.comparingLong(slice -> slice.next));
    private final ScheduledExecutorService clock;
    private Input input;
    private CompletableFuture<Void> available = new CompletableFuture<>();

    PacedReader(PacedSource source) {
        this.source = source;
        clock = Executors.newSingleThreadScheduledExecutor(
                task -> {
                    Thread thread = new Thread(task, "clock of the source");
                    thread.setDaemon(true);
                    return thread;
                });
    }

    @Override
    public void start() {
        input = new Input(source.path);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<String> output) {
        long due = due();
        for (int count = 0; count < BATCH; count++) {
            Slice slice = slices.peek();
            if (slice == null || slice.next >= due) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            slices.poll();
            long micros = source.originMicros + slice.next * SECOND / source.rate;
            output.collect(input.text(slice.next), Math.floorDiv(micros, 1000L));
            slice.next += source.slices;
            slices.add(slice);
        }
        return InputStatus.MORE_AVAILABLE;
    }

    /** How many tuples are due by now. */
    private long due() {
        long micros = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()) - source.originMicros;
        return Math.max(0, micros) * source.rate / SECOND;
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        // One that is not complete is given out again: the runtime may wait for the earlier one.
        if (available.isDone()) {
            CompletableFuture<Void> future = new CompletableFuture<>();
            available = future;
            clock.schedule(() -> future.complete(null), PAUSE_MILLIS, TimeUnit.MILLISECONDS);
        }
        return available;
    }

    @Override
    public List<Slice> snapshotState(long checkpoint) {
        List<Slice> copies = new ArrayList<>();
        for (Slice slice : slices) {
            copies.add(new Slice(slice.index, slice.next));
        }
        return copies;
    }

    @Override
    public void addSplits(List<Slice> splits) {
        slices.addAll(splits);
        available.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {
        clock.shutdownNow();
    }
}
