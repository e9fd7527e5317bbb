"""Formats without a header: only the name of a file says what it may be, which is enough to give advice."""

import os
import shlex

_SOX = "sox -t {kind} {name} {new}"
_FFMPEG = "ffmpeg -f {kind} -i {name} {new}"
# with options for facts that only the user knows
_STATED = "sox -t {kind} -r {rate} -c 1 {name} {new}"
# by ending: a command, the name of the format in that command, and the usual sample rate
_COMMANDS: dict[str, tuple[str, str, int]] = {
    "gsm": (_SOX, "gsm", 8000),
    "sln": (_SOX, "sln", 8000),
    "g722": (_FFMPEG, "g722", 16_000),
    "vox": (_STATED, "vox", 8000),
    **dict.fromkeys(("al", "alaw"), (_STATED, "al", 8000)),
    **dict.fromkeys(("ul", "ulaw"), (_STATED, "ul", 8000)),
    **dict.fromkeys(("raw", "pcm"), (_STATED, "s16", 16_000)),
    **{kind: (_STATED, kind, 16_000) for kind in ("s8", "u8", "s16", "u16", "s24", "s32", "f32", "f64")},
}


def advice_about(path: str) -> str:
    """Return how to convert a file whose name says that it has no header; empty for any other."""
    name = os.path.basename(path)
    stem, ending = os.path.splitext(name)
    if ending[1:].lower() not in _COMMANDS:
        return ""
    command, kind, rate = _COMMANDS[ending[1:].lower()]
    name, new = (shlex.quote(each if each[0] != "-" else f"./{each}") for each in (name, f"{stem}.wav"))
    stated = " with its own sample rate and channels" if command is _STATED else ""
    line = command.format(kind=kind, rate=rate, name=name, new=new)
    return f"{ending} files are headerless: convert it first{stated}, for example with: {line}"
