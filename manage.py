#!/usr/bin/env python
"""Command line of the control plane (``manage.py deploy``, ``verify``, ``migrate`` ...)."""

from __future__ import annotations

import os
import sys

from host.garbage import collect_seldom
from host.private import umask_set


def main() -> None:
    collect_seldom()
    umask_set()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
    if "RESURGE_INSTANCE" not in os.environ:  # no process of an installation
        from supervision.by_hand import command_run

        command_run(sys.argv)
        return
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
