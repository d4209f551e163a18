"""``manage.py typescript``: write the types of entities and events for the front end."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.api.specification_words import WORDS, specification_words
from controlplane.api.typescript import TYPESCRIPT, typescript


class Command(BaseCommand):
    help = "Write the types of entities, events and enumerations for the front end."

    def handle(self, *args: Any, **options: Any) -> None:
        for path, text in ((WORDS, specification_words()), (TYPESCRIPT, typescript())):
            path.write_text(text, encoding="utf-8")
            self.stdout.write(f"wrote {path}")
