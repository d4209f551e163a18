"""``manage.py ensure_admin``: the administrator and an API token, for unattended installations."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from controlplane.accounts.services import admin_ensure, token_create, tokens_revoke
from controlplane.events.choices import Channel


class Command(BaseCommand):
    help = (
        "Create or update the administrator with the password in RESURGE_ADMIN_PASSWORD; "
        'prints {"user", "created", "password", "token"} as JSON: whether the account has this password, and '
        "with --token a token, unless it is not active."
    )
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--username", default=os.environ.get("RESURGE_ADMIN_USER", "admin"))
        parser.add_argument(
            "--keep", action="store_true", help="leave an account that exists as it is, with its password"
        )
        parser.add_argument("--token", action="store_true", help="make an API token and print it")
        parser.add_argument(
            "--replace-tokens", action="store_true", help="revoke the user's earlier tokens first"
        )
        parser.add_argument(
            "--migrate", action="store_true", help="create or update the tables first, as `manage.py migrate`"
        )
        parser.add_argument("--lifetime-hours", type=float, help="the token expires after this")

    def handle(self, *args: Any, **options: Any) -> None:
        password = os.environ.get("RESURGE_ADMIN_PASSWORD", "")
        if not password:
            raise CommandError("set RESURGE_ADMIN_PASSWORD: the password never comes as an argument")
        if options["migrate"]:
            call_command(
                "migrate", interactive=False, verbosity=0, skip_checks=False, stdout=self.stderr
            )  # standard output is for the answer
        user, created = admin_ensure(
            username=options["username"], password=password, channel=Channel.CLI, keep=options["keep"]
        )
        answer: dict[str, Any] = {
            "user": user.get_username(),
            "created": created,
            "password": user.check_password(password),
        }
        if options["replace_tokens"]:
            tokens_revoke(user=user, actor="system", channel=Channel.CLI, reason="replaced by a new token")
        if options["token"] and user.is_active:
            hours = options["lifetime_hours"]
            _, answer["token"] = token_create(
                user=user,
                lifetime=None if hours is None else timedelta(hours=hours),
                actor="system",
                channel=Channel.CLI,
                reason="token for the command line",
            )
        self.stdout.write(json.dumps(answer))
