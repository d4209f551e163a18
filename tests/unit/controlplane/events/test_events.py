from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import transaction

from controlplane.events import services
from controlplane.events.choices import EventKind
from controlplane.events.models import Event, EventCounter
from controlplane.events.services import event_publish
from host.environment import ROOT


def publish(kind: EventKind = EventKind.TOPOLOGY_UPDATED) -> int:
    return int(event_publish(kind=kind, changes=[], topology="counts").sequence)


@pytest.mark.django_db(transaction=True)
def test_publication_needs_a_transaction() -> None:
    with pytest.raises(transaction.TransactionManagementError):
        publish()


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_publication_leaves_no_gap() -> None:
    with transaction.atomic():
        first = publish()

    @transaction.atomic
    def publish_and_fail() -> None:
        publish()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        publish_and_fail()
    with transaction.atomic():
        second = publish()
    assert second == first + 1
    assert list(Event.objects.values_list("sequence", flat=True)) == [first, second]


@pytest.mark.django_db
def test_the_hint_is_sent_after_the_commit(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: object
) -> None:
    hints: list[int] = []
    monkeypatch.setattr(services, "hint_send", hints.append)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        sequence = publish()
        assert hints == []
    assert hints == [sequence]


@pytest.mark.django_db
def test_numbering_goes_on_after_a_lost_counter() -> None:
    last = publish()
    EventCounter.objects.all().delete()
    assert publish() == last + 1


def test_processes_number_in_commit_order_without_gaps(tmp_path: Path) -> None:
    """Two writers and a reader on one SQLite file: a reader that sees n has seen all before n."""
    environment = {
        **os.environ,
        "RESURGE_HOME": str(tmp_path),
        "RESURGE_DATABASE_URL": f"sqlite://{tmp_path}/events.sqlite3",
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONPATH": str(ROOT),
        "RESURGE_REDIS_URL": "redis://127.0.0.1:1/0",
        "RESURGE_LOG_LEVEL": "ERROR",
    }

    def start(code: str) -> subprocess.Popen[str]:
        program = f"import django; django.setup()\nfrom django.db import transaction\n{code}"
        return subprocess.Popen(
            [sys.executable, "-c", program], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )

    migrate = "from django.core.management import call_command; call_command('migrate', verbosity=0)"
    assert start(migrate).wait(60) == 0
    writer = (
        "from controlplane.events import services\n"
        "for n in range(40):\n"
        "    with transaction.atomic():\n"
        "        services.event_publish(kind='topology.updated', changes=[])\n"
    )
    reader = (
        "import time\nfrom controlplane.events.models import Event\n"
        "seen, until = 0, time.monotonic() + 30\n"
        "while seen < 80 and time.monotonic() < until:\n"
        "    new = list(Event.objects.filter(sequence__gt=seen).order_by('sequence')"
        ".values_list('sequence', flat=True))\n"
        "    assert new == list(range(seen + 1, seen + 1 + len(new))), (seen, new)\n"
        "    seen += len(new)\n"
        "    if not seen:\n"
        "        time.sleep(0.01)\n"  # the writers still load Django
        "print(seen)\n"
    )
    watching = start(reader)
    writers = [start(writer), start(writer)]
    assert [process.wait(60) for process in writers] == [0, 0]
    out, _ = watching.communicate(timeout=60)
    assert (watching.returncode, out.strip()) == (0, "80")
