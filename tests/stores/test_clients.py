"""Clients of stores that cannot be made."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from splitter.errors import Refused
from splitter.stores import clients


def test_threads_that_wait_for_a_client_learn_together_that_there_is_none(monkeypatch: pytest.MonkeyPatch):
    """A server that is down is waited for once, not by each thread after the other."""
    asked = []

    def made(url: str) -> None:
        asked.append(url)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(clients, "with_retries", lambda call, url: made(url))
    monkeypatch.setattr(clients, "_unmade", {})

    def ask(number: int) -> str:
        with pytest.raises(Refused) as caught:
            clients.client(f"ftp://127.0.0.1:1/{number}.wav")
        return str(caught.value)

    with ThreadPoolExecutor(16) as pool:
        said = [*pool.map(ask, range(16))]
    assert len(asked) == 1
    # each names its own file
    assert [f"/{number}.wav" in text for number, text in enumerate(said)] == [True] * 16
