"""The pure core: events in, instructions out. No Django, Spark, kazoo, Celery or Redis."""
