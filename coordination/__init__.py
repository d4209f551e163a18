"""ZooKeeper: the layout of its tree and the one kind of session that agents, drivers and workers use."""
