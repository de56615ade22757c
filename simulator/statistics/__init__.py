"""Statistics of fault campaigns: how many faults to inject, what their outcomes say about all faults, and whether two
campaigns differ.

shares          sample sizes, and Wilson intervals of shares, of finite populations too
designs         estimates from weighted, stratified and clustered samples
comparisons     tests and effect sizes for two samples
distributions   the distributions that these need
"""

from simulator.statistics.shares import finite_wilson, quantile, sample_size, wilson

__all__ = ["finite_wilson", "quantile", "sample_size", "wilson"]
