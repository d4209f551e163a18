"""The operators' dashboard: page shell, built assets and the websocket of numbered events."""
