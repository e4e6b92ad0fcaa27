"""Reports on a card, a module for each mechanism.

Such a module has `SOURCE`, its file in `source/`, and four functions. `allocate(memory, mechanism,
histories)` puts what it needs on the card as long as the engine lives; `prepare(memory, mechanism,
V)` what it needs of an epoch, whose V is there. `report(memory)` adds the reports of all who are
looking, whose vectors are solved. `sums_by_item(memory, mechanism, n_reports)` puts the sums of
signs by item and factor into `wide`, and says what to multiply them by.
"""

from types import ModuleType

from sottovoce.core import Mechanism
from sottovoce.simulation.engines import load_kernel


def kernel_of(mechanism: Mechanism) -> ModuleType:
    return load_kernel(__name__, mechanism.name)
