"""The commands, a module for each resource."""
