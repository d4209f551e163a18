"""Code for every process of this host: settings, logs, processes and Java."""
