"""PTX kernels, linked: a module and an entry -> all that runs, as one flat list of items."""

from simulator.program.kernel.items import (
    Branch,
    Exit,
    Image,
    Item,
    Kernel,
    Operation,
    Parameter,
    Switch,
    SystemCall,
    Trap,
    Unsupported,
)
from simulator.program.kernel.link import link

__all__ = [
    "Branch",
    "Exit",
    "Image",
    "Item",
    "Kernel",
    "Operation",
    "Parameter",
    "Switch",
    "SystemCall",
    "Trap",
    "Unsupported",
    "link",
]
