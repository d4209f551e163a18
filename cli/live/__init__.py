"""What happens now: the websocket of numbered events, the state they add up to, and how it is shown."""
