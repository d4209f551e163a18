package resurge.benchmark;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;

/** One subtask's part of an {@link Output}, with a log that says when it had got how far in event time. */
final class OutputWriter implements StatefulSinkWriter<Result, Integer> {
    private final Path directory;
    private final String name;
    private final OutputStream progress;
    private final byte[] buffer = new byte[1 << 15];
    private final byte[][] windows = new byte[Windows.SIZE.length][];
    private final long[] ends = new long[Windows.SIZE.length];
    private int size;
    private long checkpoint;
    private OutputStream rows;

    OutputWriter(String directory, int subtask, int subtasks, int attempt, long restored) throws IOException {
        this.directory = Files.createDirectories(Path.of(directory));
        // The start tells two attempts apart that have the same number.
        name = String.format(
                "a%d-r%d-t%d-s%d-of%d", attempt, restored, System.currentTimeMillis(), subtask, subtasks);
        checkpoint = restored;
        progress = new FileOutputStream(this.directory.resolve(name + ".progress").toFile(), true);
    }

    @Override
    public void write(Result row, Context context) throws IOException {
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

    @Override
    public void writeWatermark(Watermark watermark) throws IOException {
        pass();
        long seconds = Math.floorDiv(watermark.getTimestamp() + 1, 1000L);
        String line = checkpoint + " " + seconds + " " + System.currentTimeMillis() + "\n";
        progress.write(line.getBytes(StandardCharsets.US_ASCII));
    }

    @Override
    public void flush(boolean last) throws IOException {
        pass();
    }

    @Override
    public List<Integer> snapshotState(long id) throws IOException {
        pass();
        if (rows != null) {
            rows.close();
            rows = null;
        }
        checkpoint = id;
        return List.of();
    }

    @Override
    public void close() throws Exception {
        pass();
        if (rows != null) {
            rows.close();
        }
        progress.close();
    }
}
