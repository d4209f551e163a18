from __future__ import annotations

import socket
import threading

import pytest

from supervision.readiness import NotReadyError, http_status, tcp_answer, tcp_open, wait_until


def test_waiting_ends_as_soon_as_it_is_pointless() -> None:
    with pytest.raises(NotReadyError, match="redis: exited with 1"):
        wait_until(lambda: False, what="redis", timeout=60, alive=lambda: "exited with 1")


def test_waiting_has_a_limit() -> None:
    with pytest.raises(NotReadyError, match="redis: not ready after 0 s"):
        wait_until(lambda: False, what="redis", timeout=0.05, pause=0.01)


def test_waiting_returns_the_time_it_took() -> None:
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), what="it", timeout=5, pause=0.01) >= 0.02


def test_a_port_without_a_listener() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert tcp_answer("127.0.0.1", port, b"ruok") == b""
    assert not tcp_open("127.0.0.1", port)
    assert http_status("127.0.0.1", port, "/healthz") == 0


def test_an_answer_is_returned() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(16) == b"ruok"
                connection.sendall(b"imok")

        thread = threading.Thread(target=answer)
        thread.start()
        assert tcp_answer("127.0.0.1", server.getsockname()[1], b"ruok") == b"imok"
        thread.join()
