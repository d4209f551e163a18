"""Active replicas, checkpoints and source replay on real processes: Figures 7 to 10 of partially active
replication."""
