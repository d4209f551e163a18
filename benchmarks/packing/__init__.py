"""Plans against the best that nodes have room for: single waves, and areas under availability."""
