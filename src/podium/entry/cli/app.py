"""What every command shares: the project, the caller, the way answers and refusals are printed."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, TypeVar

import click

from podium.domain.errors import REFUSED, USAGE, PodiumError, WrongUsage
from podium.entry.settings import CLIENT_SESSION, Settings, bells_folder, find_root, session_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from podium.services.callers import Caller
    from podium.store.base import Store

EXIT_CODES = (
    "Exit codes: 0 done, 1 refused by the protocol or problems found, 2 wrong usage, 3 not set up."
)


class App:
    """One run of the command line: environment in, answer out."""

    def __init__(self, env: Mapping[str, str], cwd: str) -> None:
        self.env = env
        self.settings = Settings(find_root(env, cwd), env)
        self.given_session: str | None = None
        self.as_json = False
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The project's database, opened when first needed."""
        if self._store is None:
            from podium.store import open_store

            self._store = open_store(self.settings.database)
        return self._store

    @property
    def session_id(self) -> str | None:
        """Who is speaking; None is a person at a terminal."""
        return session_id(self.env, self.given_session)

    @property
    def caller(self) -> Caller:
        """The speaker with its rows, as the database knows it."""
        return self.speaker(self.store)

    def speaker(self, store: Store) -> Caller:
        """The same, by this store. In a client's shell it is the client who says who types."""
        from podium.services.callers import identify

        caller, client = identify(store, self.session_id), self.env.get(CLIENT_SESSION)
        if (
            self.given_session
            and client
            and identify(store, client).session_id != caller.session_id
        ):
            raise PodiumError(
                f"this is session {client}, and a session speaks for itself; leave out --session"
            )
        return caller

    def find(self, given: str) -> str:
        """Where a file named by the user is: here, as in a worktree, else in the root."""
        here = os.path.abspath(given)
        return here if os.path.isfile(here) else os.path.join(self.settings.root, given)

    def path(self, given: str, *, must_exist: bool = True) -> str:
        """A file named by the user, relative to the root as the messages want it."""
        full = self.find(given)
        if must_exist and not os.path.isfile(full):
            raise PodiumError(
                f"there is no file {clean(given)}; write it first, then run this again"
            )
        inside = os.path.relpath(full, self.settings.root)
        return full if inside.startswith(os.pardir) else inside

    def show(
        self,
        facts: Mapping[str, Any],
        lines: Iterable[str] | str,
        colour: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Print the answer: one JSON object with --json, else the lines, safe for a terminal.

        Each is one line, whatever is in it. `colour` gives its colour, where somebody sees it.
        """
        if self.as_json:
            text = json.dumps(facts, ensure_ascii=False, default=str)
            if not text.isprintable():  # JSON lets C1 controls pass, and a person may look at it
                text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
            click.echo(text)
            return
        seen = sys.stdout.isatty()
        for line in [lines] if isinstance(lines, str) else lines:
            plain = clean(line)
            click.echo(click.style(plain, fg=colour(plain)) if seen and colour(plain) else plain)

    def arm(self, session_id: str) -> None:
        """Let the session be woken, if its SessionStart hook hung a bell before podium was here."""
        from podium.services import bells

        folder = bells_folder(self.env)
        bell = bells.path(folder, session_id) if folder else ""
        if bell and os.path.exists(bell):
            self.store.run("set_bell", session_id=session_id, bell=bell)

    def close(self) -> None:
        """Ring whom the changes concern, and let go of the database."""
        if self._store is None:
            return
        if self._store.touched:
            from podium.services import bells

            bells.ring_for(self._store, self._store.touched, but=self.session_id)
        self._store.close()


def clean(text: str) -> str:
    """One line that cannot steer a terminal: control characters shown, a tab kept."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\t" else (f"\\x{ord(c):02x}" if ord(c) < 256 else "�")
        for c in text
    )


def storable(text: str) -> str:
    """Text the database keeps whole: no NUL, no half characters."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "␀")


def read_text(given: str) -> str:
    """The value of -m: the text itself, or standard input for `-`; never empty."""
    text = storable(sys.stdin.buffer.read().decode("utf-8", "replace") if given == "-" else given)
    if not text.strip():
        raise WrongUsage("the text is empty; give it with -m TEXT or on standard input with -m -")
    return text


Command = TypeVar("Command", bound=Callable[..., None])


def verb(
    group: click.Group, name: str, example: str, codes: str = EXIT_CODES
) -> Callable[[Command], Command]:
    """Add a command to a group. Its docstring is its manual; it gets the App first."""

    def add(function: Command) -> Command:
        @click.pass_context
        def run(ctx: click.Context, /, as_json: bool, session: str | None, **options: Any) -> None:
            app: App = ctx.obj
            app.as_json = app.as_json or as_json
            app.given_session = session or app.given_session
            function(app, **options)

        run.__doc__ = function.__doc__
        run.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        command = click.command(name, epilog=f"Example: {example}\n\n{codes}")(
            click.option("--session", metavar="ID", help="Speak as this session.")(
                click.option(
                    "--json", "as_json", is_flag=True, help="Answer with one JSON object."
                )(run)
            )
        )
        group.add_command(command)
        return function

    return add


def working_directory() -> str:
    """Where the command runs; the root when that folder was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = dict(modules)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Every name, without importing anything."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, imported now."""
        module = self.modules.get(cmd_name)
        if module is None:
            return None
        group: click.Group = importlib.import_module(f"podium.entry.cli.{module}").group
        return group if group.name == cmd_name else group.commands[cmd_name]

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run; every refusal is one line on standard error and the right exit code."""
        app = App(os.environ, working_directory())
        try:
            code = super().main(args, **{**extra, "standalone_mode": False, "obj": app})
            sys.stdout.flush()
        except PodiumError as refused:
            code = _fail(str(refused), refused.exit_code)
        except click.UsageError as wrong:
            path = wrong.ctx.command_path if wrong.ctx else "podium"
            code = _fail(f"{wrong.format_message()} Run: {path} --help", USAGE)
        except click.ClickException as wrong:
            code = _fail(wrong.format_message(), USAGE)
        except (click.Abort, KeyboardInterrupt):
            code = 130
        except BrokenPipeError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # nobody reads any more
            code = 0
        except Exception as error:
            if os.environ.get("PODIUM_DEBUG"):
                raise
            code = _fail(
                f"a bug in podium: {type(error).__name__}: {error}; nothing half-written; "
                "PODIUM_DEBUG=1 shows where",
                REFUSED,
            )
        finally:
            with contextlib.suppress(PodiumError):
                app.close()
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    line = clean(" ".join(message.split()))
    click.echo(f"podium: {line}", err=True)
    return code
