"""Format of generated documents: the same bytes on every machine, and lines that a reader can compare."""

import json
from typing import Any

WIDTH = 118


def document_text(value: Any) -> str:
    """JSON with one space of indent, where what fits a line is on one."""
    return _lines(value, indent=0, room=WIDTH) + "\n"


def _lines(value: Any, *, indent: int, room: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or (indent and len(flat) <= room - indent):
        return flat
    pad, end = " " * (indent + 1), " " * indent
    if isinstance(value, list):
        rows = [pad + _lines(item, indent=indent + 1, room=room) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{end}]"
    rows = []
    for name, item in value.items():
        key = f"{json.dumps(name)}: "
        rows.append(pad + key + _lines(item, indent=indent + 1, room=room - len(key)))
    return "{\n" + ",\n".join(rows) + f"\n{end}}}"
