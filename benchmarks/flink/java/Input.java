package resurge.benchmark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * The texts by row: an int32 with their number n, n + 1 int32 offsets, and the UTF-8 bytes (little endian). The
 * file is mapped, since a replacement that has to read all of it first would start later.
 */
final class Input {
    private final MappedByteBuffer content;
    private final int rows;

    Input(String path) {
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ)) {
            content = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        content.order(ByteOrder.LITTLE_ENDIAN);
        rows = content.getInt(0);
    }

    /** The text of tuple n: that of row n modulo the number of rows. */
    String text(long tuple) {
        int row = (int) (tuple % rows);
        int start = content.getInt(4 + 4 * row);
        byte[] bytes = new byte[content.getInt(8 + 4 * row) - start];
        content.get(8 + 4 * rows + start, bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
