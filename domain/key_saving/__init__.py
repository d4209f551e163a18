"""Uncoordinated checkpoints: the state of each key is stored by itself (Apache S4, fault tolerance). Pure."""
