"""structlog and the standard library's logging, rendered alike on standard error."""

from __future__ import annotations

import logging
from typing import Any

import structlog


def _shared_processors() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]


def logging_configuration(level: str) -> dict[str, Any]:
    """Configure structlog for this process and return Django's ``LOGGING``."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.KeyValueRenderer(
                        key_order=["timestamp", "level", "logger", "event"], sort_keys=False
                    ),
                ],
                "foreign_pre_chain": _shared_processors(),
            }
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "structured",
                "level": logging.getLevelName(level),
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.db.backends": {"level": "INFO"},
            "kazoo": {"level": "WARNING"},
            "asyncio": {"level": "WARNING"},
        },
    }
