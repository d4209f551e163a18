"""The launcher keeps one driver for every deployed topology and starts the nodes that are due."""
