"""Recovery on real processes: Figures 12 to 15 of incremental recovery."""
