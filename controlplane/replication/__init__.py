"""Replication plans of the live system; the computation is in `domain.replication`."""
