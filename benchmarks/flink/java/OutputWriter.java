package resurge.benchmark;

import java.io.Closeable;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.TaskInfo;

/** One subtask's part of an {@link Output}, with a log that says when it had got how far in event time. */
final class OutputWriter implements Closeable {
    private final Path directory;
    private final String name;
    private final OutputStream progress;
    private final byte[] buffer = new byte[1 << 15];
    private final byte[][] windows = new byte[Windows.SIZE.length][];
    private final long[] ends = new long[Windows.SIZE.length];
    private int size;
    private long checkpoint;
    private OutputStream rows;

    /** `run` names the run of the job, that is all subtasks from one restart to the next. */
    OutputWriter(String directory, String run, TaskInfo task, long restored) throws IOException {
        this.directory = Files.createDirectories(Path.of(directory));
        name = String.format(
                "%s-r%d-t%d-s%d-of%d",
                run,
                restored,
                System.currentTimeMillis(),
                task.getIndexOfThisSubtask(),
                task.getNumberOfParallelSubtasks());
        checkpoint = restored;
        progress = new FileOutputStream(this.directory.resolve(name + ".progress").toFile(), true);
    }

    void write(Result row) throws IOException {
        int worst = 3 * row.key.length() + 40;
        if (size + worst > buffer.length) {
            pass();
            if (worst > buffer.length) {
                throw new IOException("a key of " + row.key.length() + " characters is too long");
            }
        }
        if (ends[row.aggregate] != row.end) {
            ends[row.aggregate] = row.end;
            windows[row.aggregate] = ((row.end - Windows.SIZE[row.aggregate]) + "," + row.end + ",")
                    .getBytes(StandardCharsets.US_ASCII);
        }
        byte[] window = windows[row.aggregate];
        System.arraycopy(window, 0, buffer, size, window.length);
        size += window.length;
        number(row.count);
        buffer[size++] = ',';
        text(row.key);
        buffer[size++] = '\n';
    }

    private void number(int value) {
        int digits = 1;
        for (int rest = value; rest >= 10; rest /= 10) {
            digits++;
        }
        for (int index = size + digits - 1, rest = value; index >= size; index--, rest /= 10) {
            buffer[index] = (byte) ('0' + rest % 10);
        }
        size += digits;
    }

    private void text(String key) {
        for (int index = 0; index < key.length(); index++) {
            char letter = key.charAt(index);
            if (letter >= 128) {
                byte[] rest = key.substring(index).getBytes(StandardCharsets.UTF_8);
                System.arraycopy(rest, 0, buffer, size, rest.length);
                size += rest.length;
                return;
            }
            buffer[size++] = (byte) letter;
        }
    }

    private void pass() throws IOException {
        if (size > 0) {
            if (rows == null) {
                Path path = directory.resolve(name + "-c" + checkpoint + ".rows");
                rows = new FileOutputStream(path.toFile(), true);
            }
            rows.write(buffer, 0, size);
            size = 0;
        }
    }

    /** Event time has got to `millis`: rows of all windows that end by then have come. */
    void reached(long millis) throws IOException {
        pass();
        long seconds = Math.floorDiv(millis, 1000L);
        String line = checkpoint + " " + seconds + " " + System.currentTimeMillis() + "\n";
        progress.write(line.getBytes(StandardCharsets.US_ASCII));
    }

    /** What comes now comes after the barrier of this checkpoint. */
    void cut(long id) throws IOException {
        pass();
        if (rows != null) {
            rows.close();
            rows = null;
        }
        checkpoint = id;
    }

    @Override
    public void close() throws IOException {
        pass();
        if (rows != null) {
            rows.close();
        }
        progress.close();
    }
}
