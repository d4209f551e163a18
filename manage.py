#!/usr/bin/env python
"""Command line of the control plane (``manage.py deploy``, ``verify``, ``migrate`` ...)."""

from __future__ import annotations

import os
import sys

from host.garbage import collect_seldom
from host.private import umask_set
from supervision.management import command_run


def main() -> None:
    collect_seldom()
    umask_set()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
    command_run(sys.argv)


if __name__ == "__main__":
    main()
