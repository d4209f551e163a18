"""A file system that loses what was not forced to disk: ext4 on a loop device, shut down in the middle."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, of the file system that a directory is in."""
FLUSHING_THE_JOURNAL = 1
"""Names reach the disk, contents that were not forced do not: the worst that a crash may leave."""
MEGABYTES = 64


class NoLossyDiskError(Exception):
    """This machine has no loop devices; the message says why."""


class LossyDisk:
    """`root` is a directory on it."""

    def __init__(self, image: Path, root: Path) -> None:
        self.image, self.root = image, root

    def crash(self) -> None:
        """The power goes. Calls that are under way, and all later ones until it is mounted again, fail."""
        descriptor = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", FLUSHING_THE_JOURNAL))
        finally:
            os.close(descriptor)

    def restart(self) -> None:
        """The file system as it is found afterwards, on another disk: files that this process has still open
        keep the old one."""
        _run("umount", "--lazy", str(self.root))
        before, self.image = self.image, self.image.with_name(f"{self.image.name}+")
        shutil.copyfile(before, self.image)
        before.unlink()
        self.mount()

    def remount(self) -> None:
        """The file system as it is found afterwards. No process may have a file open. Raises
        `subprocess.CalledProcessError`."""
        _run("umount", str(self.root))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.root))


@contextmanager
def lossy_disk(directory: Path, *, megabytes: int = MEGABYTES) -> Iterator[LossyDisk]:
    """Raises `NoLossyDiskError` where this machine has none."""
    disk = LossyDisk(directory / "disk.img", directory / "disk")
    disk.root.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(megabytes << 20)
    try:
        _run("mkfs.ext4", "-q", "-F", str(disk.image))
        disk.mount()
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", b"") or str(error).encode()
        raise NoLossyDiskError(
            f"no loop device, so nothing is known of a host that crashes: {told.decode().strip()}"
        ) from error
    try:
        yield disk
    finally:
        _run("umount", "--lazy", str(disk.root))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
