"""The health of everything, derived once by `domain.health` from rows, and told with every event."""
