"""From any older database to the schema this code knows, forward only, one transaction a step."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from podium.domain.errors import NotSetUp, StoreBroken, StoreBusy
from podium.domain.rules import ERROR_RETRIES
from podium.domain.states import MessageType, State

from .sqlite import APPLICATION, HERE, SCHEMA, SqliteStore
from .triggers import PREFIX, quoted, triggers

# File systems on which SQLite's WAL loses data: its readers share memory, which no network shares.
NETWORKED = {
    *("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afpfs", "ncpfs", "afs"),
    *("webdav", "davfs", "fuse.davfs2", "sshfs", "fuse.sshfs", "ceph", "fuse.ceph"),
    *("glusterfs", "fuse.glusterfs", "lustre", "beegfs", "gpfs"),
}

SWITCH = "PRAGMA journal_mode = WAL"


def steps() -> dict[int, str]:
    """The numbered steps, by number."""
    folder = os.path.join(HERE, "sql")
    names = sorted(name for name in os.listdir(folder) if name[:3].isdigit())
    found = {}
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found[int(name[:3])] = file.read()
    return found


def _statements(script: str) -> list[str]:
    """The statements of a step, with the domain's lists filled in."""
    plain = "\n".join(line.split("--")[0] for line in script.splitlines())
    filled = (
        plain.replace(":states", quoted(State))
        .replace(":message_types", quoted(MessageType))
        .replace(":error_retries", str(ERROR_RETRIES))
    )
    return [text.strip() for text in filled.split(";") if text.strip()]


def upgrade(store: SqliteStore, *, new: bool = False) -> None:
    """Bring the database to SCHEMA; refuses a newer one and one that is somebody else's.

    Only where a `new` one is wanted is an empty file filled: it may be another program's.
    """
    found = store.version()
    if found > SCHEMA:
        raise NotSetUp(
            f"{store.path} was made by a newer podium (schema {found}, this one knows {SCHEMA}); "
            "it is left untouched; update the plugin, then run: podium doctor"
        )
    if found == 0 and _has_tables(store):
        raise NotSetUp(
            f"{store.path} holds tables that are not podium's; it is left untouched; "
            "run: podium init --archive to set it aside, or name another file in PODIUM_DB"
        )
    if found == 0 and not new:
        raise NotSetUp(f"{store.path} is empty; run: podium init")
    for number, script in steps().items():
        with store.transaction():
            if store.version() < number:  # another process may have made the step meanwhile
                for statement in _statements(script):
                    store.command(statement)
                _make_triggers(store)
                store.command(f"PRAGMA application_id = {APPLICATION}")
                store.command(f"PRAGMA user_version = {number}")


def _has_tables(store: SqliteStore) -> bool:
    return store.command("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None


def _make_triggers(store: SqliteStore) -> None:
    old = store.command(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB :ours",
        {"ours": PREFIX + "*"},
    ).fetchall()
    for (name,) in old:
        store.command(f"DROP TRIGGER {name}")
    for text in triggers().values():
        store.command(text)


def lost_rules(store: SqliteStore) -> list[str]:
    """The rules that somebody dropped or changed: whoever may write the file can."""
    found = store.command("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    kept = {str(row[0]): str(row[1]) for row in found}
    return sorted(name for name, text in triggers().items() if kept.get(name) != text)


def restore_rules(store: SqliteStore) -> list[str]:
    """Make the rules anew if any was lost; those that were."""
    with store.transaction():
        lost = lost_rules(store)
        if lost:
            _make_triggers(store)
    return lost


def create(path: str, wait: float = 15.0) -> SqliteStore:
    """The store at this path, made if there is none. Keeps what is there; mode 0600."""
    system = file_system(os.path.dirname(os.path.abspath(path)))
    if system in NETWORKED:
        raise StoreBroken(
            f"{path} is on a network file system ({system}), where SQLite loses data; "
            "put it on a local disk: PODIUM_DB=/local/path podium init"
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreBroken(
            f"{path} cannot be made ({error.strerror}); make its folder writable, "
            "then run: podium init"
        ) from error
    store = SqliteStore(path, wait)
    try:
        if store.version() == 0 and not _has_tables(store):
            _keep_a_journal(store, time.monotonic() + wait)
        if store.version() != SCHEMA:
            upgrade(store, new=True)
    except BaseException:
        store.close()
        raise
    return store


def _keep_a_journal(store: SqliteStore, end: float) -> None:
    """Switch to WAL. Two who do it at once are both refused at once: SQLite does not wait here."""
    while time.monotonic() < end:
        with suppress(StoreBusy):
            store.command(SWITCH)
            return
        time.sleep(0.01)
    store.command(SWITCH)


def archive(path: str, stamp: str, wait: float = 5.0) -> str | None:
    """Move a database and its journals aside; the new name, or None when there was none."""
    if not os.path.lexists(path):
        return None
    stem, ending = os.path.splitext(path)
    target, number = f"{stem}-{stamp}{ending}", 1
    while os.path.lexists(target):
        number += 1
        target = f"{stem}-{stamp}-{number}{ending}"
    try:
        store = SqliteStore(path, wait)
        try:
            store.command("PRAGMA journal_mode = DELETE")  # folds the journal into the file
        finally:
            store.close()
    except StoreBroken:
        pass  # whatever it is, it is kept as it is
    for tail in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(path + tail):
            os.rename(path + tail, target + tail)
    return target


def file_system(folder: str) -> str:
    """The kind of file system that holds this folder; empty where it cannot be told."""
    best, kind = "", ""
    folder = os.path.realpath(folder)
    for mount, system in _mounts():
        inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, system
    return kind


def _mounts() -> list[tuple[str, str]]:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
        return [(row[1].encode().decode("unicode_escape"), row[2]) for row in rows if len(row) > 2]
    except OSError:
        import re
        import subprocess

        # macOS and the BSDs: "//user@host/share on /Volumes/share (smbfs, nodev, …)"
        try:
            text = subprocess.run(
                ["/sbin/mount"], capture_output=True, text=True, timeout=5, check=False
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return []
        return re.findall(r" on (.*) \((\w+)", text)
