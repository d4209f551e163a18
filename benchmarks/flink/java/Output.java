package resurge.benchmark;

import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Writes the rows of one query as text, at once. Files are cut at checkpoints and named after the checkpoint that
 * precedes their rows and the one that this run of the job was restored from, so that a reader can leave out exactly
 * what a later run writes again: output is there without waiting for a checkpoint, and still counts once.
 *
 * <p>An operator and not a sink, because a sink is not told which run of the job it is part of.
 */
final class Output extends AbstractStreamOperator<Void> implements OneInputStreamOperator<Result, Void> {
    private final String directory;
    private transient OutputWriter writer;

    Output(String directory) {
        this.directory = directory;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        writer = new OutputWriter(
                directory,
                run(getContainingTask().getEnvironment().getExecutionId()),
                getRuntimeContext().getTaskInfo(),
                context.getRestoredCheckpointId().orElse(0));
    }

    @Override
    public void processElement(StreamRecord<Result> row) throws Exception {
        writer.write(row.getValue());
    }

    @Override
    public void processWatermark(Watermark watermark) throws Exception {
        super.processWatermark(watermark);
        writer.reached(watermark.getTimestamp() + 1);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        writer.cut(context.getCheckpointId());
    }

    /** The first part of the id of an execution, which all subtasks have in common until the next restart. */
    private static String run(ExecutionAttemptID id) {
        String text = id.toString();
        return text.substring(0, text.indexOf('_'));
    }

    @Override
    public void close() throws Exception {
        if (writer != null) {
            writer.close();
        }
        super.close();
    }
}
