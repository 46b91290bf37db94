"""Columns whose texts are stored compressed, each on its own, with a dictionary of what bids and receipts repeat.

A market has one such text or more for each bid. Alone each is too short for a compressor to learn from; with the
dictionary it takes a quarter of its length. Documents that resemble each other, as those of bids on one model, are
compressed with a sample, too, which is stored once. A column cannot be searched by what is in it.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, Final

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

WINDOW: Final = -13
"""Window of 8 kB, and neither header nor checksum."""

_FIRST: Final = (
    b'{"program":{"name":"image":"weight":"memory_gb":"decay":"g1":"g2":"g3":"b":"form":"linear","form":"c'
    b'onstant","form":"sigmoid","zero_at_s":"type":"constant","v":"type":"linear","type":"sigmoid","archit'
    b'ecture":"ring","mode":"model":"ResNet-50","label":"","edge-0":"cloud":"worker-0":"gpu":"ps":"priorit'
    b'y":"chunk_mb":"size_gb":"weight","reason":"no_room","It could run on the empty cluster, but no sched'
    b'ule fits the free capacity.","reason":"worthless","It could run, but even at its earliest possible c'
    b'ompletion it is worth nothing.","reason":"price","Every schedule costs at least what it is worth. At'
    b' a value of , complete at slot , it would have been admitted.","reason":"impossible","No schedule fi'
    b'ts even the empty cluster within the horizon.","counter":{"completion":,"latest_start":,"least_value'
    b'":},"epochs":1,"chunks":,"minibatches":,"worker_time":["1/9000","1/3600000"],"ps_time":["11/720000",'
    b'"77/3600000"],"transfer_time":["49/491625","49/371025"],"delay":[1,2,3,4,0,0,0,0,0,0,0,0,1,1,1,1,2,2'
    b',2,2,3,3,3,3,4,4,4,4],"utility":{"type":"step","v":100.0,"deadline":60.0},"architecture":"ps","reduc'
    b'e_time":"0","chunk_size":0}{"id":"1","arrival":0,{"architecture":"ps","epochs":1,"chunks":,"minibatc'
    b'hes":,"gradient_mb":98.0,"worker_step_s":{"worker-1":,"worker-2":,"worker-3":},"ps_step_s":{"ps-1":0'
    b'.0,"ps-2":0.0,"ps-3":0.0},"upload_delay_s":{},"start_after_s":0.0,"standing":false,"standing":true,"'
    b'utility":{"form":"step","value":100.0,"deadline_s":3600.0}}{"admitted":false,"bid_id":"1","counter":'
    b'null,"density":[0.0,0.0,],"explanation":"","payment":0.0,"payoff":0.0,{"admitted":true,"bid_id":"1",'
    b'"counter":null,"density":[],"explanation":"Admitted: it starts in slot  and is complete at slot , sl'
    b'ots after arrival. That is worth 100.00 and costs  at the posted prices.","payment":,"payoff":,"pric'
    b'es":{"discounted_slots":38,"log_growth":[6.907755278982137,6.907755278982137,6.907755278982137],"log'
    b'_scale":[-13.815510557964274,-13.815510557964274,-13.815510557964274],"name":"quantile","offset":[0,'
    b'0,0,0,0,0],"per_slot_ahead":[]},"reason":null,"schedule":null,"schedule":{"completion":,"placements"'
    b':[[,"ps",],[,"worker",]],"start":},"slot":0,"standalone_value":0.0,"value":0.0}'
)
_PHRASES: Final = (
    b'"chunks":[[,,,],[,,,]],"completion":,"handicap":0,"placements":[],"start":"due":,"lambda":,"name":"c'
    b'onsumption","scale":[,,]"reason":"over_budget","reason":"expired","reason":"refused",It stood from s'
    b"lot  to slot  and was not admitted. It was to be tried no longer.Finishing later would be worth noth"
    b"ing.Admitted: its  chunks go to  workers at the edge and the cloud. If no shorter job comes, the fir"
    b"st is begun in slot  and the last is complete by slot . One job is delayed by it.  jobs are delayed "
    b"by it. Admitted: it is number  of the  jobs in line, planned to start in slot  and to be complete at"
    b" slot . This is a plan, which can change until the job has started. Nobody pays here.Admitted: it is"
    b" complete by slot , which is worth  and costs  at the posted prices. It is planned to start in slot "
    b" and to be complete at slot ; its machines may change as long as the promised slot is kept.Every com"
    b"pletion that can be promised costs at least what it is worth.Even the empty cluster could not comple"
    b"te it before slot : its machines, its work and its upload It could run, but even at its earliest pos"
    b"sible completion it is worth nothing.The empty cluster could run it, but not beside the jobs that we"
    b're promised a completion, while {"admitted":false,"bid_id":"","counter":null,"density":[,],"explanat'
    b'ion":"The empty cluster could run it, but what is still free before slot  cannot, at any price, whil'
    b'e finishing is worth anything.","payment":0.0,"payoff":0.0,"prices":{"discounted_slots":38,"log_grow'
    b'th":[],"log_scale":[-],"name":"quantile","offset":[0,0,0,0,0,0],"per_slot_ahead":[e-06,e-05,]},"reas'
    b'on":"no_room","schedule":null,"slot":"explanation":"Every schedule that fits costs more than finishi'
    b"ng then is worth, whatever value is stated: it would be complete so late that hardly any of the valu"
    b'e is left."explanation":"Every schedule that fits costs at least what finishing then is worth. It of'
    b'fered .00; anything above  would have been admitted, starting in slot  at the latest.","payment":0.0'
    b',"payoff":0.0,"prices":{"discounted_slots":,"label":"job ","label":"","model":"ResNet-50","epochs":,'
    b'"utility":{"form":"step","value":,"deadline_s":},"standing":false}{"form":"linear","value":,"zero_at'
    b'_s":}{"form":"sigmoid","value":,"steepness_per_s":,"midpoint_s":} slots after arrival. That is worth'
    b' .00 and costs 0. at the posted prices.","payment":'
)
"""Words of newer receipts, and keys of requests as they are sent."""

DICTIONARIES: Final[dict[int, bytes]] = {1: _FIRST, 2: _PHRASES + _FIRST}
"""Keys are the numbers in the first byte of a stored text. Never change a dictionary: stored texts need every byte."""

CURRENT: Final = 2

SAMPLED: Final = 3
"""First byte of a text that is compressed with dictionary 2 and a sample, of which the key follows."""
KEY_BYTES: Final = 4
SAMPLES_KEPT: Final = 1_000
"""Largest number of samples in the memory of a process."""


@dataclass(frozen=True)
class Sample:
    """A text that others resemble. Its row never changes, and stays as long as texts are stored that need it."""

    text: str

    @cached_property
    def key(self) -> int:
        """The key of its row, which follows from the text."""
        return int.from_bytes(blake2b(self.text.encode(), digest_size=KEY_BYTES).digest())


class Like(dict[str, Any]):
    """A document that resembles a sample whose row is stored."""

    def __init__(self, document: Mapping[str, Any], sample: Sample) -> None:
        super().__init__(document)
        self.sample = sample


def json_text(document: object) -> str:
    """Return a JSON document as it is compressed; raises ValueError for NaN and infinity."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def packed(text: str, sample: Sample | None = None) -> bytes:
    """Return a text as it is stored: the number of its dictionary in a byte, then the compressed text.

    With a sample, which must be stored, its key stands between them.
    """
    head, dictionary = bytes((CURRENT,)), DICTIONARIES[CURRENT]
    if sample is not None:
        head, dictionary = bytes((SAMPLED,)) + sample.key.to_bytes(KEY_BYTES), _with_sample(sample.text)
    compressor = zlib.compressobj(6, zlib.DEFLATED, WINDOW, 8, zlib.Z_DEFAULT_STRATEGY, dictionary)
    return head + compressor.compress(text.encode()) + compressor.flush()


def unpacked(stored: bytes) -> str:
    """Return the text that `packed` stored. Raises ValueError if it is damaged, or if its sample is not stored."""
    begin = 1
    dictionary = DICTIONARIES.get(stored[0]) if stored else None
    if stored and stored[0] == SAMPLED and len(stored) > KEY_BYTES:
        begin += KEY_BYTES
        dictionary = _with_sample(_text_of_sample(int.from_bytes(stored[1:begin])))
    if dictionary is None:
        raise ValueError(f"expected a compressed text, got {stored[:20]!r}")
    decompressor = zlib.decompressobj(WINDOW, dictionary)
    try:
        text = decompressor.decompress(stored[begin:]) + decompressor.flush()
    except zlib.error as error:
        raise ValueError(f"a compressed text is damaged: {error}") from error
    if not decompressor.eof:
        raise ValueError("a compressed text is damaged: its end is missing")
    return text.decode()


@lru_cache(maxsize=SAMPLES_KEPT)
def _with_sample(text: str) -> bytes:
    return DICTIONARIES[2] + text.encode()


@lru_cache(maxsize=SAMPLES_KEPT)
def _text_of_sample(key: int) -> str:
    """Return the text of a sample; other processes may have stored it."""
    from cluster.models import TextSample  # noqa: PLC0415 (needs the app registry)

    found = TextSample.objects.filter(pk=key).values_list("text", flat=True).first()
    if found is None:
        raise ValueError(f"a compressed text is damaged: there is no sample {key}")
    return found


class _Compact(models.Field):  # type: ignore[type-arg]  # the kind of value is that of the other base class
    """Stores texts compressed. A query cannot compare or search them."""

    def get_internal_type(self) -> str:
        """Return the type of the column: bytes."""
        return "BinaryField"

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        """Return a value as the database takes it."""
        if value is None or hasattr(value, "as_sql"):
            return value
        sample = value.sample if isinstance(value, Like) else None
        return connection.Database.Binary(packed(self.written(value), sample))  # type: ignore[attr-defined]

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        """Return a value as the database takes it."""
        return self.get_db_prep_value(value, connection)

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        """Return what was stored."""
        return None if value is None else self.read(unpacked(bytes(value)))

    def get_lookup(self, lookup_name: str) -> Any:
        """Return a lookup; there is only the one that finds nulls."""
        return super().get_lookup(lookup_name) if lookup_name == "isnull" else None

    def get_transform(self, lookup_name: str) -> Any:
        """Return None: nothing in a compressed text can be looked up."""
        return None

    def written(self, value: Any) -> str:
        """Return a value as text."""
        raise NotImplementedError

    def read(self, text: str) -> Any:
        """Return the value of a text."""
        raise NotImplementedError


class CompactTextField(_Compact, models.TextField):  # type: ignore[type-arg]
    """A text, stored compressed."""

    description = "Compressed text"

    def written(self, value: Any) -> str:
        """Return a value as text; raises TypeError if it is not a string."""
        if not isinstance(value, str):
            raise TypeError(f"{self.name}: expected a string, got {value!r}")
        return value

    def read(self, text: str) -> str:
        """Return the text."""
        return text


class CompactJSONField(_Compact, models.JSONField):
    """A JSON document, stored compressed; its keys keep their order."""

    description = "Compressed JSON"

    def written(self, value: Any) -> str:
        """Return a document as text; raises ValueError for NaN and infinity."""
        return json_text(value)

    def read(self, text: str) -> Any:
        """Return the document of a text."""
        return json.loads(text)
