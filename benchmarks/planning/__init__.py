"""Recovery planning: Figure 16 of incremental recovery, planning time, and look-ahead."""
