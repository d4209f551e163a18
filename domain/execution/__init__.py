"""Running a topology: the partition runtime, lanes of epochs and the progress of a run."""
