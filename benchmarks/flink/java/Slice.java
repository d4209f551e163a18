package resurge.benchmark;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Part of the source: the tuples n with n modulo the number of slices = index, of which `next` comes next. */
final class Slice implements SourceSplit {
    final int index;
    long next;

    Slice(int index, long next) {
        this.index = index;
        this.next = next;
    }

    @Override
    public String splitId() {
        return Integer.toString(index);
    }

    static final class Serializer implements SimpleVersionedSerializer<Slice> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Slice slice) {
            return ByteBuffer.allocate(12).putInt(slice.index).putLong(slice.next).array();
        }

        @Override
        public Slice deserialize(int version, byte[] bytes) throws IOException {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Slice(buffer.getInt(), buffer.getLong());
        }
    }
}
