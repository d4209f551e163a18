"""What changes topologies, nodes, plans and incidents together, in one transaction."""
