"""Host programs against a simulated GPU: a CUDA runtime of ours, and the server behind it (`tcsim exec`).

>>> import simulator.host
>>> result = simulator.host.run(["./program", "--size=256"], config="h100_sxm")  # doctest: +SKIP
>>> result.code, result.launches[0].kernel  # doctest: +SKIP
(0, '_Z3addPKfS0_Pfi')
"""

from simulator.host.errors import HostError
from simulator.host.running import Result, run

__all__ = ["HostError", "Result", "run"]
