"""What would happen if nodes died now: the simulator, asked about the live system. Changes nothing."""
