"""The partition runtime: what a partition does with what arrives, without I/O (DESIGN, section 3)."""
