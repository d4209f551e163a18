package resurge.benchmark;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A source of texts for Structured Streaming. Tuple n is due n / rate seconds after the start, whatever became
 * of the tuples before it, and has that moment as its event time. Options: path (see Input), rate, partitions.
 */
public final class PacedTexts implements TableProvider {
    private static final StructType SCHEMA =
            new StructType().add("timestamp", DataTypes.TimestampType).add("text", DataTypes.StringType);

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Texts();
    }

    private static final class Texts implements SupportsRead {
        @Override
        public String name() {
            return "texts";
        }

        @Override
        @SuppressWarnings("deprecation")
        public StructType schema() {
            return SCHEMA;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return () ->
                    new Scan() {
                        @Override
                        public StructType readSchema() {
                            return SCHEMA;
                        }

                        @Override
                        public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
                            return new Paced(
                                    options.get("path"), options.getLong("rate", 0), options.getInt("partitions", 1));
                        }
                    };
        }
    }

    /** The offset is the number of tuples before it. */
    private static final class Paced implements MicroBatchStream {
        private final String path;
        private final long rate;
        private final int partitions;
        private final long originMicros = System.currentTimeMillis() / 1000 * 1_000_000;

        Paced(String path, long rate, int partitions) {
            this.path = path;
            this.rate = rate;
            this.partitions = partitions;
        }

        @Override
        public Offset initialOffset() {
            return new Count(0);
        }

        @Override
        public Offset latestOffset() {
            return new Count((System.currentTimeMillis() * 1000 - originMicros) * rate / 1_000_000);
        }

        @Override
        public Offset deserializeOffset(String json) {
            return new Count(Long.parseLong(json));
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            long from = ((Count) start).tuples;
            long more = ((Count) end).tuples - from;
            InputPartition[] planned = new InputPartition[partitions];
            for (int part = 0; part < partitions; part++) {
                long first = from + more * part / partitions;
                planned[part] = new Range(path, rate, originMicros, first, from + more * (part + 1) / partitions);
            }
            return planned;
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Factory();
        }

        @Override
        public void commit(Offset end) {}

        @Override
        public void stop() {}
    }

    private static final class Count extends Offset {
        private final long tuples;

        Count(long tuples) {
            this.tuples = tuples;
        }

        @Override
        public String json() {
            return Long.toString(tuples);
        }
    }

    private record Range(String path, long rate, long originMicros, long first, long end) implements InputPartition {}

    private static final class Factory implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            return new Reader((Range) partition);
        }
    }

    private static final class Reader implements PartitionReader<InternalRow> {
        private static volatile Input input;
        private final Range range;
        private long next;

        Reader(Range range) {
            this.range = range;
            next = range.first() - 1;
            if (input == null) {
                input = new Input(range.path());
            }
        }

        @Override
        public boolean next() {
            next++;
            return next < range.end();
        }

        @Override
        public InternalRow get() {
            long at = range.originMicros() + next * 1_000_000 / range.rate();
            return new GenericInternalRow(new Object[] {at, UTF8String.fromString(input.text(next))});
        }

        @Override
        public void close() {}
    }
}
