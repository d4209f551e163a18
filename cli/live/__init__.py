"""The live view: the websocket of numbered events, the state they add up to, and its display."""
