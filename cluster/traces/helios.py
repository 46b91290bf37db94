"""Daily quotas of the tenants of Helios's cluster Earth (`Earth_gpu_number.csv`): date, a column a tenant, total."""

from collections.abc import Iterable, Iterator
from datetime import date

from cluster.traces.cells import each, expect, once, split, whole
from cluster.traces.records import Malformed, Quota
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown


def read(lines: Iterable[str]) -> Iterator[Quota | Malformed]:
    """Every row as a quota for each tenant, also those with no GPUs that day; the total has to be their sum, and
    no day stands twice."""
    rest = iter(lines)
    columns = split(next(rest, ""), ",")
    if not recognises(columns):
        raise InvalidField(
            "heading",
            f"expected the columns date, one for each tenant, total, got {', '.join(columns)[:200] or 'none'}",
        )
    tenants = columns[1:-1]
    seen: dict[str, int] = {}

    def quotas(line: int, cells: list[str]) -> Iterator[Quota]:
        expect(cells, len(columns))
        day = _day(cells[0])
        gpus = [whole(name, cell, high=10**6) for name, cell in zip(tenants, cells[1:], strict=False)]
        if whole("total", cells[-1]) != sum(gpus):
            raise InvalidField("total", f"expected the sum {sum(gpus)} of the tenants' GPUs, got {shown(cells[-1])}")
        once("date", day, seen, line)
        for tenant, count in zip(tenants, gpus, strict=True):
            yield Quota(line, day, tenant, count)

    return each(rest, quotas, first=2)


def recognises(columns: list[str]) -> bool:
    """Return whether this is the first line of such a file."""
    return len(columns) >= 3 and columns[0] == "date" and columns[-1] == "total" and len(set(columns)) == len(columns)


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidField("date", f"expected a date, got {shown(text)}") from None
