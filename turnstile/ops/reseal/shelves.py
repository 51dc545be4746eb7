"""Where contents are in Postgres: one shelf for each table, which is read and written in the order of its key.

A statement reads a page after a key. Contents that are under the present key already are not sent. Another statement writes those
that were sealed anew, unless the row has changed since, and leaves out rows that another transaction has locked.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

from turnstile.sealing.contents import Contents
from turnstile.sealing.messages import reseal_message
from turnstile.sealing.place import ERROR, TRACEBACK, Place, item_column, value_column
from turnstile.turn.stored_json import encode

Row = Mapping[str, Any]
Reseal = Callable[[Contents, Row, str, str], str]
"""From a row, the name of a column and its stored text to the text under the present key."""

LOWEST = {"uuid": "00000000-0000-0000-0000-000000000000", "integer": -(2**31), "bigint": -(2**63), "text": ""}
LOWEST["timestamptz"] = "-infinity"

_OF_TURN: LiteralString = "LEFT JOIN turns o ON o.id = r.turn_id"
_OF_ITSELF: LiteralString = "CROSS JOIN LATERAL (SELECT r.tenant_id, r.session_id) o"


@dataclass(frozen=True, slots=True)
class Shelf:
    """One table with contents."""

    table: LiteralString
    key: tuple[tuple[LiteralString, LiteralString], ...]
    """The primary key: names and types, none of which is NULL."""
    columns: tuple[tuple[LiteralString, LiteralString], ...]
    """The columns with contents: names, and `json` or `text`."""
    reseal: Reseal
    owner: LiteralString = _OF_TURN
    """SQL that joins `o`, with the tenant and the session of row `r`."""
    more: LiteralString = ""
    """Further columns of `r` that `reseal` needs."""
    rows: int = 200
    """Rows in a page."""

    @property
    def first(self) -> dict[str, Any]:
        """The place before all rows."""
        return {f"after_{name}": LOWEST[kind] for name, kind in self.key}

    def after(self, row: Row) -> dict[str, Any]:
        return {f"after_{name}": row[name] for name, _ in self.key}

    @property
    def read(self) -> LiteralString:
        """A page: the key, whose it is, and each content that is not under the present key."""
        names: LiteralString = ", ".join(name for name, _ in self.key)
        bounds: LiteralString = ", ".join("%(after_" + name + ")s::" + kind for name, kind in self.key)
        contents: LiteralString = ", ".join(
            "CASE WHEN NOT starts_with(r."
            + name
            + "::text, "
            + _CURRENT[kind]
            + ") THEN r."
            + name
            + "::text END AS "
            + name
            for name, kind in self.columns
        )
        keys: LiteralString = ", ".join("r." + name for name, _ in self.key)
        return f"""
SELECT {keys}, o.tenant_id AS of_tenant, o.session_id AS of_session{self.more}, {contents}
  FROM (SELECT * FROM {self.table} p WHERE ({names}) > ({bounds}) ORDER BY {names} LIMIT %(rows)s) r
  {self.owner} ORDER BY {keys}
"""

    @property
    def write(self) -> LiteralString:
        """Writes those rows of which each column is as it was read. Returns how many."""
        names: LiteralString = ", ".join(name for name, _ in self.key)
        arrays: LiteralString = ", ".join("%(" + name + ")s::" + kind + "[]" for name, kind in self.key)
        texts: LiteralString = ", ".join(
            "%(old_" + name + ")s::text[], %(new_" + name + ")s::text[]" for name, _ in self.columns
        )
        given: LiteralString = ", ".join("old_" + name + ", new_" + name for name, _ in self.columns)
        same: LiteralString = " AND ".join("r." + name + " = w." + name for name, _ in self.key)
        unchanged: LiteralString = " AND ".join(
            "(w.new_" + name + " IS NULL OR r." + name + "::text = w.old_" + name + ")" for name, _ in self.columns
        )
        sets: LiteralString = ", ".join(
            name + " = coalesce(w.new_" + name + "::" + kind + ", r." + name + ")" for name, kind in self.columns
        )
        order: LiteralString = ", ".join("r." + name for name, _ in self.key)
        return f"""
WITH w AS MATERIALIZED (SELECT * FROM unnest({arrays}, {texts}) w ({names}, {given})
), free AS MATERIALIZED (
    SELECT w.* FROM w JOIN {self.table} r ON {same} ORDER BY {order} FOR NO KEY UPDATE OF r SKIP LOCKED
), written AS (
    UPDATE {self.table} r SET {sets} FROM free w WHERE {same} AND {unchanged} RETURNING 1
)
SELECT count(*) AS rows FROM written
"""


_CURRENT: dict[str, LiteralString] = {
    "json": "'\"sealed:1:' || %(key_id)s::text || ':'",
    "text": "'sealed:1:' || %(key_id)s::text || ':'",
}


def _message(contents: Contents, row: Row, _: str, stored: str) -> str:
    return reseal_message(
        contents, stored, row["of_tenant"], row["of_session"], row["turn_id"], row["role"], row["kind"]
    )


def _value(contents: Contents, row: Row, _: str, stored: str) -> str:
    place = Place(row["of_tenant"], row["of_session"], row["turn_id"], value_column(row["key"]))
    return contents.reseal_json(stored, place)


def _item(contents: Contents, row: Row, _: str, stored: str) -> str:
    place = Place(row["of_tenant"], row["of_session"], None, item_column(row["kind"], row["key"]))
    return contents.reseal_json(stored, place)


def _text_of_attempt(contents: Contents, row: Row, column: str, stored: str) -> str:
    return contents.reseal(stored, Place(row["of_tenant"], row["of_session"], row["turn_id"], column))


def _text_of_turn(contents: Contents, row: Row, column: str, stored: str) -> str:
    return contents.reseal(stored, Place(row["of_tenant"], row["of_session"], row["id"], column))


def _archived(contents: Contents, row: Row, column: str, stored: str) -> str:
    """A column of the archive: a row of a table as JSON, or several."""
    document = json.loads(stored)
    whose = (row["of_tenant"], row["of_session"], row["id"])

    def text(of: dict[str, Any], name: str) -> dict[str, Any]:
        return {**of, name: contents.reseal(of[name], Place(*whose, name))} if of.get(name) is not None else of

    match column:
        case "turn":
            changed: Any = text(document, ERROR)
        case "attempts":
            changed = [text(text(one, ERROR), TRACEBACK) for one in document]
        case "messages":
            changed = [
                {
                    **one,
                    "content": json.loads(
                        reseal_message(contents, encode(one["content"]), *whose, one["role"], one["kind"])
                    ),
                }
                for one in document
            ]
        case _:
            changed = [
                {
                    **one,
                    "value": json.loads(
                        contents.reseal_json(encode(one["value"]), Place(*whose, value_column(one["key"])))
                    ),
                }
                for one in document
            ]
    return stored if changed == document else encode(changed)


MESSAGES = Shelf(
    "messages",
    (("turn_id", "uuid"), ("ordinal", "integer")),
    (("content", "json"),),
    _message,
    more=", r.role, r.kind",
)
SHELVES = (
    MESSAGES,
    Shelf("turns", (("id", "uuid"),), ((ERROR, "text"),), _text_of_turn, _OF_ITSELF),
    Shelf(
        "turn_attempts",
        (("turn_id", "uuid"), ("attempt", "integer"), ("fence", "bigint")),
        ((ERROR, "text"), (TRACEBACK, "text")),
        _text_of_attempt,
    ),
    Shelf("turn_values", (("turn_id", "uuid"), ("key", "text")), (("value", "json"),), _value),
    Shelf(
        "memory_items",
        (("tenant_id", "text"), ("session_id", "text"), ("kind", "text"), ("key", "text")),
        (("content", "json"),),
        _item,
        _OF_ITSELF,
    ),
    Shelf(
        "archived_turns",
        (("id", "uuid"), ("tenant_id", "text"), ("ended_at", "timestamptz")),
        (("turn", "json"), ("messages", "json"), ("attempts", "json"), ("recorded_values", "json")),
        _archived,
        _OF_ITSELF,
        rows=20,
    ),
)
