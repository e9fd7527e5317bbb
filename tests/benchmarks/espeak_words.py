"""Make speech with libespeak-ng, with the times of its words."""

import ctypes
from dataclasses import dataclass

import numpy as np

RATE = 22_050
_SYNCHRONOUS, _PHONEME_EVENTS = 2, 1
_UTF8, _SSML = 1, 0x10
_LIST_ENDS, _WORD, _PHONEME = 0, 1, 7
_SPEED = 1


class _Id(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("milliseconds", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    )


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass
class Speech:
    """Samples from -1 to 1, and when each word starts and stops, in seconds."""

    sound: np.ndarray
    words: list[tuple[float, float]]


class Espeak:
    """The library, which a process can load only once."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        assert self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONEME_EVENTS) == RATE
        self._callback = _Callback(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def say(self, ssml: str, voice: str = "en", words_per_minute: int = 175) -> Speech:
        """Return the sound of a text, and its words; a pause ends a word."""
        self._blocks: list[np.ndarray] = []
        self._edges: list[tuple[float, bool]] = []
        self._library.espeak_SetVoiceByName(voice.encode())
        self._library.espeak_SetParameter(_SPEED, words_per_minute, 0)
        text = f"<speak>{ssml}</speak>".encode()
        self._library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8 | _SSML, None, None)
        sound = np.concatenate(self._blocks) / 32768
        ends = [*(at for at, _ in self._edges[1:]), len(sound) / RATE]
        words = [(at, end) for (at, is_word), end in zip(self._edges, ends, strict=True) if is_word]
        return Speech(sound, words)

    def _take(self, samples, count, events) -> int:
        if samples and count:
            self._blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        number = 0
        while events[number].type != _LIST_ENDS:
            event = events[number]
            number += 1
            if event.type == _WORD:
                self._edges.append((event.sample / RATE, True))
            elif event.type == _PHONEME and event.id.string.startswith(b"_"):
                self._edges.append((event.sample / RATE, False))
        return 0
