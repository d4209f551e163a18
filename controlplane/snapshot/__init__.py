"""The state of everything, as clients load it before they follow events."""
