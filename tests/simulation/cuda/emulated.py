"""A graphics card that is emulated: the same kernels, compiled for the processor."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import SettingsError
from sottovoce.simulation.cuda.card import CudaCard
from tests.lacking import leave_out

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

HEADER = Path(__file__).with_name("emulated.hpp")
FLAGS = ["-std=c++20", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-pthread", "-w"]


def has_card() -> bool:
    """Return whether this machine has a graphics card."""
    try:
        CudaCard(0)
    except SettingsError:
        return False
    return True


class EmulatedCard(CudaCard):
    """Has few processors and few threads: every division of the work must give the same."""

    processors = 1
    threads = 3

    def __init__(self, shared_bytes: int = 227 << 10):
        self.shared_bytes = shared_bytes
        self._library: ctypes.CDLL | None = None

    def load(self, source: str) -> None:
        self._library = ctypes.CDLL(str(_compile(source)))

    def upload(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    def zeros(self, size: int, kind: DTypeLike) -> NDArray[Any]:
        return np.zeros(size, kind)

    def download(self, buffer: NDArray[Any]) -> NDArray[Any]:
        return buffer.copy()

    def address(self, buffer: NDArray[Any]) -> int:
        return int(buffer.ctypes.data)

    def sort(self, buffer: NDArray[Any]) -> None:
        buffer.sort()

    def launch(
        self, kernel: str, blocks: int, threads: int, shared: int, setup: NDArray[Any]
    ) -> None:
        assert self._library is not None
        assert shared <= self.shared_bytes
        run = getattr(self._library, f"emulate_{kernel}")
        threads = min(threads, self.threads)
        run(blocks, threads, ctypes.c_long(shared), ctypes.c_void_p(self.address(setup)))


def size_of(struct: str, source: str) -> int:
    """Return the size of a struct in bytes."""
    library = ctypes.CDLL(str(_compile(source)))
    return int(getattr(library, f"size_of_{struct}")())


@cache
def _compile(source: str) -> Path:
    """Compile a source, or return what an earlier run compiled of it."""
    names = re.findall(r'extern "C" __global__ void (\w+)', source)
    entries = "\n".join(
        f'extern "C" void emulate_{name}(int blocks, int threads, long bytes, const Setup *s) '
        f"{{ run_kernel({name}, blocks, threads, bytes, s); }}"
        for name in names
    )
    sizes = "\n".join(
        f'extern "C" long size_of_{name}() {{ return sizeof({name}); }}'
        for name in re.findall(r"^struct (\w+) {", source, re.MULTILINE)
    )
    text = "\n".join([HEADER.read_text(), source, entries, sizes])
    library = Path(gettempdir()) / f"sottovoce-kernels-{sha256(text.encode()).hexdigest()[:24]}.so"
    if not library.exists():
        if shutil.which("g++") is None:
            leave_out("the kernels of the cuda engine: g++ compiles them for the processor")
        # Another process may compile it at the same time.
        with TemporaryDirectory(dir=library.parent) as folder:
            code, output = Path(folder) / "kernels.cpp", Path(folder) / library.name
            code.write_text(text)
            subprocess.run(["g++", *FLAGS, "-o", str(output), str(code)], check=True)
            output.rename(library)
    return library
