"""Background workers: detection, recovery, ingestion, the launcher and the providers of nodes."""
