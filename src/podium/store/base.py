"""What every backend offers. The names in `sql/queries.sql` are the contract, not their text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Row = dict[str, Any]


class Store(Protocol):
    """Named statements on one shared database; each call is its own transaction unless within one.

    Every call may raise StoreBusy, StoreBroken, or RuleRefused when the database refuses a write.
    """

    touched: set[str]
    """The tasks that this store has written: who is concerned may be rung."""

    def one(self, name: str, **params: object) -> Row | None:
        """The first row of a named query, or None."""

    def all(self, name: str, **params: object) -> list[Row]:
        """Every row of a named query."""

    def run(self, name: str, **params: object) -> int:
        """How many rows a named statement changed."""

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing, and nobody else writes meanwhile. One inside another joins it."""

    def change(self) -> int:
        """A number that differs once anybody else has committed."""

    def close(self) -> None:
        """Let go of the database."""
