"""Changes to SQLite files: what a damaged disk, an odd exporter, or someone with bad intent makes of them."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from typing import Final

from .bytes_damage import damaged

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
VALUES: Final = (
    *("NULL", "0", "-1", "1", "7.0", "7.5", "'x'", "'9'", "x'00ff'", "9223372036854775807", "-9223372036854775808"),
    *("1e300", "-1e300", "4611686018427387903", "2305843009213693952", "281474978390016", "zeroblob(40)"),
    *(
        "char(27) || '[31m' || char(10)",
        "'<script>'",
        "x'fffe'",
        "printf('%.5000c', 'k')",
        "start + 5000",
        "rowid * 1000",
    ),
)
STATEMENTS: Final = (
    "UPDATE {table} SET {column} = {value} WHERE rowid = {row}",
    "UPDATE {table} SET {column} = {value} WHERE rowid = {row}",
    "UPDATE {table} SET {column} = {value} WHERE rowid = {row}",
    "UPDATE {table} SET {column} = {value}",
    "UPDATE {table} SET {column} = {column} + {row} * 1000",
    "DELETE FROM {table} WHERE rowid = {row}",
    "DELETE FROM {table}",
    "INSERT INTO {table} SELECT * FROM {table}",
    "INSERT INTO {table} SELECT * FROM {table} WHERE rowid = {row}",
    "ALTER TABLE {table} RENAME COLUMN {column} TO x_{column}",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "ALTER TABLE {table} RENAME TO x_{table}",
    "DROP TABLE {table}",
    "CREATE TABLE copy AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE copy RENAME TO {table}",
    "ALTER TABLE {table} RENAME TO x; CREATE VIEW {table} AS SELECT * FROM x",
    "CREATE INDEX i ON {table} ({column})",
    "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN SELECT 1; END",
    "CREATE TABLE o (start PRIMARY KEY, end) WITHOUT ROWID; INSERT INTO o SELECT start, end FROM {kernels}; "
    "DROP TABLE {kernels}; ALTER TABLE o RENAME TO {kernels}",
    "PRAGMA writable_schema=ON; "
    "UPDATE sqlite_master SET sql = replace(sql, '{column}', {value}) WHERE name = '{table}'",
    "PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage = {row} WHERE name = '{table}'",
    "PRAGMA writable_schema=ON; UPDATE sqlite_master SET type = 'view' WHERE name = '{table}'",
    "PRAGMA user_version={row}; VACUUM",
)


def altered(data: bytes, chance: random.Random) -> bytes:
    """The file after a few statements; those that SQLite does not take are left out."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.deserialize(data)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        if not tables:
            break
        table = chance.choice(tables)
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')] or ["x"]
        words = {"table": table, "column": chance.choice(columns), "kernels": KERNELS}
        statement = chance.choice(STATEMENTS).format(value=chance.choice(VALUES), row=chance.randrange(1, 12), **words)
        with contextlib.suppress(sqlite3.Error, sqlite3.Warning):
            connection.executescript(statement)
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA writable_schema=OFF")
    return connection.serialize()


def torn(data: bytes, chance: random.Random) -> bytes:
    """Pages swapped, doubled or blank, or other bytes damaged."""
    size = int.from_bytes(data[16:18]) or 1024
    size = 65536 if size == 1 else size
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    for _ in range(chance.choice((1, 1, 2))):
        one, other = chance.randrange(len(pages)), chance.randrange(len(pages))
        match chance.randrange(4):
            case 0:
                pages[one], pages[other] = pages[other], pages[one]
            case 1:
                pages[one] = pages[other]
            case 2 if one:
                pages[one] = bytes(size)
            case _:
                pages[one] = damaged(pages[one], chance)[:size].ljust(size, b"\0")
    return b"".join(pages)
