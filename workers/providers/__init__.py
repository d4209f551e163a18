"""Where nodes come from: a provider starts, ends and fails them, and says how long a new one takes."""
