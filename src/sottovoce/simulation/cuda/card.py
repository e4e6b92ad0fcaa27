"""A graphics card, by CuPy: memory, and kernels that are compiled when they are first needed."""

from typing import Any

from numpy.typing import DTypeLike, NDArray

from sottovoce.errors import SettingsError

Buffer = Any
"""An array on the card."""

# No fused multiply-add: one rounding for each operation, as everywhere else.
OPTIONS = ("--std=c++17", "--fmad=false")
ROOM = "extern __shared__ double room[];\n"


class CudaCard:
    """What an engine asks of a card; the tests' own, on the processor, extends it."""

    threads = 256
    """Of one block, that serve best."""
    processors: int
    shared_bytes: int
    """Of one block of threads, at most."""

    def __init__(self, number: int):
        self._cupy = _cupy()
        self._device = self._cupy.cuda.Device(_checked(self._cupy, number))
        about = self._device.attributes
        self.processors = int(about["MultiProcessorCount"])
        self.shared_bytes = int(about["MaxSharedMemoryPerBlockOptin"])
        self._module: Any = None
        self._kernels: dict[str, Any] = {}

    def load(self, source: str) -> None:
        """Compile the kernels of this source; those of an earlier one are forgotten."""
        with self._device:
            self._module = self._cupy.RawModule(code=ROOM + source, options=OPTIONS)
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
        """Run a kernel, after all that was launched before."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._module.get_function(kernel)
        function = self._kernels[kernel]
        if shared > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = shared
        with self._device:
            function((blocks,), (threads,), (setup,), shared_mem=shared)


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise SettingsError(
            "the cuda engine needs CuPy: pip install 'sottovoce[cuda]'; without a graphics card, "
            "use the cpu engine"
        ) from error
    return cupy


def _checked(cupy: Any, number: int) -> int:
    try:
        there = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise SettingsError(
            f"the cuda engine needs an NVIDIA card and its driver: {error}; without one, use the "
            "cpu engine"
        ) from error
    if number >= there:
        raise SettingsError(f"there is no card {number}; there are {there}, counted from 0")
    return number
