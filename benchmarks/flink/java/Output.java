package resurge.benchmark;

import java.io.IOException;
import java.util.Collection;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsWriterState;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Writes the rows of one query as text, at once. Files are cut at checkpoints and named after the checkpoint that
 * precedes their rows and the one that their writer was restored from, so that a reader can leave out exactly what a
 * later attempt writes again: output is there without waiting for a checkpoint, and still counts once.
 */
final class Output implements Sink<Result>, SupportsWriterState<Result, Integer> {
    private final String directory;

    Output(String directory) {
        this.directory = directory;
    }

    @Override
    public OutputWriter createWriter(WriterInitContext context) throws IOException {
        return new OutputWriter(
                directory,
                context.getTaskInfo().getIndexOfThisSubtask(),
                context.getTaskInfo().getNumberOfParallelSubtasks(),
                context.getTaskInfo().getAttemptNumber(),
                context.getRestoredCheckpointId().orElse(0));
    }

    @Override
    public StatefulSinkWriter<Result, Integer> restoreWriter(
            WriterInitContext context, Collection<Integer> states) throws IOException {
        return createWriter(context);
    }

    @Override
    public SimpleVersionedSerializer<Integer> getWriterStateSerializer() {
        return new SimpleVersionedSerializer<>() {
            @Override
            public int getVersion() {
                return 1;
            }

            @Override
            public byte[] serialize(Integer state) {
                return new byte[] {state.byteValue()};
            }

            @Override
            public Integer deserialize(int version, byte[] bytes) {
                return (int) bytes[0];
            }
        };
    }
}
