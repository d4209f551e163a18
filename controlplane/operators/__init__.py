"""One operator of a topology as an operator of the system looks at it: configuration, logs, problems."""
