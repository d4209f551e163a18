"""The workers' application as it is, with tasks that tests need."""

from __future__ import annotations

import threading
from pathlib import Path

from kombu.asynchronous import get_event_loop

from harness.eventually import eventually
from workers.bootsteps import StallStep
from workers.celery_app import app
from workers.stall import PATIENCE, StallWatch

StallStep.every = 0.1


def be_patient(seconds: float) -> None:
    for thread in threading.enumerate():
        if isinstance(thread, StallWatch):
            thread.detector.patience = seconds


@app.task(name="webhooks.note")
def note(path: str) -> None:
    Path(path).touch()


@app.task(name="webhooks.hold")
def hold(started: str, until: str) -> None:
    """Runs until a file exists; meanwhile the watch has hardly any patience."""
    be_patient(0.3)
    Path(started).touch()
    eventually(Path(until).exists, until)
    be_patient(PATIENCE)


@app.task(name="webhooks.deafen")
def deafen() -> None:
    """After this task the worker asks Redis for no more messages, and the watch has little patience."""
    loop = get_event_loop()
    assert loop is not None
    loop.on_tick.clear()
    be_patient(1.0)
