"""Fixtures for tests with the real client.

PODIUM_TEST_CLIENTS names the versions. Where a client or tmux cannot be had the tests are skipped,
or, with PODIUM_REQUIRE_CLIENT=1, fail.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Callable

import pytest

from client.driver import Client, Terminal
from client.install import NoClient, client_path
from client.model import Model
from client.orchestra import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = os.environ.get("PODIUM_TEST_CLIENTS", "2.1.197 latest").split()


def _missing(reason: str) -> None:
    if os.environ.get("PODIUM_REQUIRE_CLIENT") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session", params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Path:
    """The installed client, one version after the other."""
    try:
        return client_path(request.param)
    except NoClient as reason:
        _missing(f"no client {request.param}: {reason}")
        raise


@pytest.fixture
def model() -> Iterator[Model]:
    """A scripted model; what did not fit its play fails the test."""
    with Model() as model:
        yield model
        model.check()


@pytest.fixture
def client(program: Path, model: Model, tmp_path: Path) -> Iterator[Client]:
    """The real client in a world of its own."""
    with Client(program, tmp_path / "client", model) as client:
        yield client


@pytest.fixture
def terminal(client: Client) -> Callable[..., Terminal]:
    """Opens interactive sessions of the client."""
    if shutil.which("tmux") is None:
        _missing("tmux is not on PATH; it is needed for interactive sessions")
    return client.terminal


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project whose path has a space and an accent."""
    path = tmp_path / "le projét"
    path.mkdir()
    return path


@pytest.fixture
def plugin() -> Path:
    """This repository, which is the plugin."""
    return Path(__file__).parents[2]


@pytest.fixture
def run(plugin: Path, project: Path) -> Run:
    """A project with a run of one task."""
    return Run(plugin, project)
