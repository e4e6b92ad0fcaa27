"""A graphics card, used through CuPy: its memory and its kernels."""

from typing import Any

from numpy.typing import DTypeLike, NDArray

from sottovoce.errors import SettingsError

# An array on the card.
Buffer = Any
# Fused multiply-add is off, so that each operation is rounded, as in all engines.
COMPILER_OPTIONS = ("--std=c++17", "--fmad=false")
# The declaration of the memory that the threads of a block share.
SHARED_MEMORY_DECLARATION = "extern __shared__ double block_memory[];\n"


class CudaCard:
    """The functions of a card that the engine uses. Tests have a subclass that emulates a card."""

    threads = 256
    """The number of threads in a block, unless a kernel needs another one."""
    processors: int
    """The number of multiprocessors."""
    shared_bytes: int
    """The largest number of bytes that the threads of a block can share."""

    def __init__(self, number: int):
        self._cupy = _import_cupy()
        self._device = self._cupy.cuda.Device(_check_number(self._cupy, number))
        attributes = self._device.attributes
        self.processors = int(attributes["MultiProcessorCount"])
        self.shared_bytes = int(attributes["MaxSharedMemoryPerBlockOptin"])
        self._module: Any = None
        self._kernels: dict[str, Any] = {}

    def load(self, source: str) -> None:
        """Compile the kernels in this source code. They replace those of an earlier call."""
        with self._device:
            self._module = self._cupy.RawModule(
                code=SHARED_MEMORY_DECLARATION + source, options=COMPILER_OPTIONS
            )
        self._kernels = {}

    def upload(self, array: NDArray[Any]) -> Buffer:
        with self._device:
            return self._cupy.asarray(array)

    def zeros(self, size: int, kind: DTypeLike) -> Buffer:
        with self._device:
            return self._cupy.zeros(size, kind)

    def download(self, buffer: Buffer) -> NDArray[Any]:
        with self._device:
            array: NDArray[Any] = self._cupy.asnumpy(buffer)
        return array

    def address(self, buffer: Buffer) -> int:
        return int(buffer.data.ptr)

    def sort(self, buffer: Buffer) -> None:
        with self._device:
            buffer.sort()

    def launch(self, kernel: str, blocks: int, threads: int, shared: int, setup: Buffer) -> None:
        """Start a kernel. It runs after all kernels that were started before it."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._module.get_function(kernel)
        function = self._kernels[kernel]
        if shared > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = shared
        with self._device:
            function((blocks,), (threads,), (setup,), shared_mem=shared)


def _import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise SettingsError(
            "the cuda engine needs CuPy: pip install 'sottovoce[cuda]'; without a graphics card, "
            "use the cpu engine"
        ) from error
    return cupy


def _check_number(cupy: Any, number: int) -> int:
    try:
        n_cards = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise SettingsError(
            f"the cuda engine needs an NVIDIA card and its driver: {error}; without one, use the "
            "cpu engine"
        ) from error
    if number >= n_cards:
        raise SettingsError(
            f"there is no graphics card {number}: name one below {n_cards}, counted from 0"
        )
    return number
