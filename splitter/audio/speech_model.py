"""The probability of speech in each window of a recording, by silero-vad, many windows at once.

The package's own model takes one window at a time. Only its LSTM remembers anything, so the layers before it
can take hundreds of windows in one call, and the LSTM takes them as one sequence. The first layer is a
convolution with sines and cosines; a fast Fourier transform gives the same.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

RATE = 16_000
# 32 ms, and the end of the window before, which the model sees, too
WINDOW = 512
CONTEXT = 64
# from one frame of a window's spectrum to the next
HOP = 128
WINDOWS_AT_ONCE = 512
# rounding makes a smaller difference, unexpected layers a larger one
TOLERANCE = 1e-3


class SpeechModel:
    """The model of the package silero-vad, on a device of torch.

    Attributes:
        takes_sequences: Whether it takes many windows at once. If a release of the package has other layers
            than this module expects, the package's own code takes one window after the other.
    """

    def __init__(self, device: str = "cpu") -> None:
        """Load the model, and check on a short signal that `_Layers` gives the same results."""
        import silero_vad

        self._model = silero_vad.load_silero_vad()
        signal = _signal()
        expected = self._one_by_one(signal)
        self._layers: _Layers | None = None
        try:
            layers = _Layers(self._model, device)
            found = layers.read(signal)
            if torch.allclose(found, expected, rtol=0, atol=TOLERANCE):
                self._layers = layers
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            # load it once more, because some of its layers may have been moved to a device
            self._model = silero_vad.load_silero_vad()
        self.takes_sequences = self._layers is not None

    def probabilities(self, blocks: Iterable[np.ndarray]) -> tuple[list[float], int]:
        """Return the probability of speech in each window of a mono recording at 16 kHz, and its length."""
        read = self._layers.read if self._layers else self._one_by_one
        if self._layers:
            self._layers.reset()
        self._model.reset_states()
        found: list[float] = []
        samples = 0
        for piece in _joined(blocks, WINDOWS_AT_ONCE * WINDOW):
            samples += len(piece)
            padded = np.pad(piece, (0, -len(piece) % WINDOW))
            found += read(torch.from_numpy(padded)).tolist()
        return found, samples

    @torch.inference_mode()
    def _one_by_one(self, sound: torch.Tensor) -> torch.Tensor:
        return torch.tensor([self._model(window, RATE).item() for window in sound.reshape(-1, WINDOW)])


class _Layers:
    """The layers of the package's model, and their state between two calls."""

    def __init__(self, model: Any, device: str) -> None:  # noqa: ANN401 - TorchScript
        inner = model._model  # noqa: SLF001
        self._device = device
        # the model multiplies by faded cosines and sines; the cosine of 0 Hz is 1, which leaves the fade
        self._fade = inner.stft.forward_basis_buffer[0, 0].to(device)
        frames = (CONTEXT + WINDOW + CONTEXT - len(self._fade)) // HOP + 1
        self._encoder = []
        for block in inner.encoder.to(device).children():
            self._encoder.append(_Convolution(block.reparam_conv, frames))
            frames = len(self._encoder[-1].steps)
        self._head = inner.decoder.decoder.to(device)
        cell = inner.decoder.rnn
        self._size = cell.weight_hh.shape[1]
        self._lstm: torch.nn.LSTM = torch.nn.LSTM(cell.weight_ih.shape[1], self._size)
        self._lstm.load_state_dict({f"{name}_l0": value for name, value in cell.named_parameters()})
        self._lstm.to(device)
        self.reset()

    def reset(self) -> None:
        """Forget the previous recording."""
        self._end = torch.zeros(CONTEXT, device=self._device)
        self._state = tuple(torch.zeros(1, self._size, device=self._device) for _ in range(2))

    @torch.inference_mode()
    def read(self, sound: torch.Tensor) -> torch.Tensor:
        """Return the probability of speech in each of the next windows."""
        sound = torch.cat((self._end, sound.to(self._device)))
        self._end = sound[-CONTEXT:]
        windows = sound.unfold(0, CONTEXT + WINDOW, WINDOW)
        windows = torch.nn.functional.pad(windows, (0, CONTEXT), mode="reflect")
        frames = windows.unfold(1, len(self._fade), HOP) * self._fade
        features = torch.fft.rfft(frames).abs().flatten(1)
        for convolution in self._encoder:
            features = convolution(features)
        hidden, self._state = self._lstm(features, self._state)
        return self._head(hidden.unsqueeze(-1)).flatten().cpu()


class _Convolution:
    """A convolution over a few frames, then ReLU: a matrix for each frame of the result.

    torch's own takes longer, since it also multiplies the zeros before the first frame and after the last.
    """

    def __init__(self, convolution: Any, frames: int) -> None:  # noqa: ANN401 - TorchScript
        weight, self._bias = convolution.weight, convolution.bias
        _, channels, taps = weight.shape
        self.steps = []
        for first in range(-(taps // 2), frames - taps // 2, convolution.stride[0]):
            start, stop = max(first, 0), min(first + taps, frames)
            matrix = weight[:, :, start - first : stop - first].permute(2, 1, 0).flatten(0, 1).contiguous()
            self.steps.append((slice(start * channels, stop * channels), matrix))

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        """Return the channels of each frame in turn, given those of the layer before."""
        found = [torch.addmm(self._bias, features[:, part], matrix).relu_() for part, matrix in self.steps]
        return torch.cat(found, 1)


def _signal() -> torch.Tensor:
    """Return a second and a half of swelling noise with a tone, which no layer can ignore."""
    noise = torch.randn(48 * WINDOW, generator=torch.Generator().manual_seed(1))
    time = torch.arange(len(noise)) / RATE
    return (noise * (3 * time).sin() + (1000 * time).sin()) / 8


def _joined(blocks: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Yield the first channel in pieces of one size, so that results do not depend on a decoder's blocks."""
    rest = np.empty(0, np.float32)
    for block in blocks:
        rest = np.concatenate((rest, block[:, 0]))
        whole = len(rest) // size * size
        yield from rest[:whole].reshape(-1, size)
        rest = rest[whole:]
    if len(rest):
        yield rest
