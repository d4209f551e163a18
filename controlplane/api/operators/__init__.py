"""One operator of a topology over REST."""
