"""Replication plans: quality against the optimum, planning time, Figures 13 and 14 of the paper on PPA."""
