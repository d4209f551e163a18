package resurge.benchmark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Texts at a rate that the clock fixes: tuple n is due n / rate seconds after `origin`, however late it is read. A
 * backlog is therefore read as fast as the job can. Checkpoints hold the next tuple of each slice; slices are
 * distributed anew when the parallelism changes.
 */
final class PacedSource implements Source<String, Slice, Set<Integer>> {
    final String path;
    final long originMicros;
    final long rate;
    final int slices;

    PacedSource(String path, long originMicros, long rate, int slices) {
        this.path = path;
        this.originMicros = originMicros;
        this.rate = rate;
        this.slices = slices;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<String, Slice> createReader(SourceReaderContext context) {
        return new PacedReader(this);
    }

    @Override
    public SplitEnumerator<Slice, Set<Integer>> createEnumerator(SplitEnumeratorContext<Slice> context) {
        Set<Integer> every = new TreeSet<>();
        for (int index = 0; index < slices; index++) {
            every.add(index);
        }
        return new Enumerator(context, every);
    }

    @Override
    public SplitEnumerator<Slice, Set<Integer>> restoreEnumerator(
            SplitEnumeratorContext<Slice> context, Set<Integer> waiting) {
        return new Enumerator(context, new TreeSet<>(waiting));
    }

    @Override
    public SimpleVersionedSerializer<Slice> getSplitSerializer() {
        return new Slice.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<Set<Integer>> getEnumeratorCheckpointSerializer() {
        return new WaitingSerializer();
    }

    /** Gives each reader its share of the slices once, when the job is new. */
    private final class Enumerator implements SplitEnumerator<Slice, Set<Integer>> {
        private final SplitEnumeratorContext<Slice> context;
        private final Set<Integer> waiting;
        private final List<Slice> returned = new ArrayList<>();

        Enumerator(SplitEnumeratorContext<Slice> context, Set<Integer> waiting) {
            this.context = context;
            this.waiting = waiting;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Slice> splits, int subtask) {
            returned.addAll(splits);
        }

        @Override
        public void addReader(int subtask) {
            for (Slice slice : returned) {
                context.assignSplit(slice, subtask);
            }
            returned.clear();
            for (Integer index : List.copyOf(waiting)) {
                if (index % context.currentParallelism() == subtask) {
                    waiting.remove(index);
                    context.assignSplit(new Slice(index, index), subtask);
                }
            }
        }

        @Override
        public Set<Integer> snapshotState(long checkpoint) {
            return new TreeSet<>(waiting);
        }

        @Override
        public void close() {}
    }

    private static final class WaitingSerializer implements SimpleVersionedSerializer<Set<Integer>> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Set<Integer> waiting) {
            ByteBuffer buffer = ByteBuffer.allocate(4 * waiting.size());
            waiting.forEach(buffer::putInt);
            return buffer.array();
        }

        @Override
        public Set<Integer> deserialize(int version, byte[] bytes) throws IOException {
            Set<Integer> waiting = new TreeSet<>();
            for (ByteBuffer buffer = ByteBuffer.wrap(bytes); buffer.hasRemaining(); ) {
                waiting.add(buffer.getInt());
            }
            return waiting;
        }
    }
}
