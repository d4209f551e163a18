"""What every process of this host needs: settings, logs, processes and Java."""
