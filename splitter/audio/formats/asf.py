"""ASF, the container of WMA: how much sound its header states.

| GUID, size | GUID, size, properties | GUID, size, ... | ... | head of the data | packet | packet | ...

FFmpeg believes this only if the file is about as large as stated, so not if it was cut off.
"""

import os
import struct
from uuid import UUID

_PROPERTIES = UUID("8cabdca1-a947-11cf-8ee4-00c00c205365").bytes_le
# every object begins with its kind and size, also the header, which contains others six bytes later
_OBJECT, _FIRST_AT, _DATA_HEAD_BYTES = struct.Struct("<16sQ"), 30, 50
# in the properties: packets, length in ticks, milliseconds before the sound, flags, bytes of a packet
_STATED, _STATED_AT, _TICKS = struct.Struct("<QQ8xQII"), 56, 10_000_000
_STREAMED, _MOST_OBJECTS = 1, 1000


def seconds_before_cut(path: str) -> float:
    """Return how many seconds a file states if packets are missing; 0 if none are, or that is unknown."""
    with open(path, "rb") as file:
        there = os.fstat(file.fileno()).st_size
        _, header = _OBJECT.unpack(file.read(_OBJECT.size))
        at = _FIRST_AT
        for _ in range(_MOST_OBJECTS):
            file.seek(at)
            start = file.read(_STATED_AT + _STATED.size)
            if len(start) < _STATED_AT + _STATED.size:
                break
            name, size = _OBJECT.unpack_from(start)
            if name == _PROPERTIES:
                packets, ticks, before, flags, packet = _STATED.unpack_from(start, _STATED_AT)
                is_cut = header + _DATA_HEAD_BYTES + packets * packet > there
                is_bound = is_cut and not flags & _STREAMED
                return max(0.0, ticks / _TICKS - before / 1000) if is_bound else 0.0
            at = min(at + size, there)
    return 0.0
