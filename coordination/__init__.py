"""ZooKeeper: the layout of its tree and the one session class, which agents, drivers and workers use."""
