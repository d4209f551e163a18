package resurge.benchmark;

/** A row: how often `key` occurs in the window of aggregate O`aggregate` that ends at `end` (seconds). */
public final class Result {
    public int aggregate;
    public long end;
    public String key;
    public int count;

    public Result() {}
}
