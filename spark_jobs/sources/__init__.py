"""Sources: readers that give replayable slices of an input (PySpark's Python Data Source contract)."""
