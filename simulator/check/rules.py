"""The table of rules of `tcsim check`: what must hold, where PTX states it, and how to fix a trace that breaks it.

The rules of `isa.undefined.RULES` are checked as well; here are those beyond them.
"""

from __future__ import annotations

from typing import NamedTuple

from isa.undefined import RULES as UNDEFINED


class CheckRule(NamedTuple):
    """One rule.

    Attributes:
        rule: what must hold.
        section: where PTX states it, or on what evidence it is looked for.
        fix: what to do, where a finding has nothing more exact to say.
    """

    rule: str
    section: str
    fix: str


_ORDER = "PTX ISA 9.0, 9.7.16.6 (memory consistency of tcgen05)"
_COMMIT = "PTX ISA 9.0, 9.7.16.12 (tcgen05.commit)"
_WAIT = "PTX ISA 9.0, 9.7.16.8.5 (tcgen05.wait)"
_FENCE = "PTX ISA 9.0, 9.7.16.11 (tcgen05.fence)"
_PROXY = "PTX ISA 9.0, 9.7.16.6.5 (shared memory accesses of tcgen05)"
_DESCRIPTOR = "PTX ISA 9.0, 9.7.16.4 (matrix and instruction descriptors)"
_MMA = "PTX ISA 9.0, 9.7.16.10 (tcgen05.mma)"

ORDER_RULES: dict[str, CheckRule] = {
    "missing-commit": CheckRule(
        "mma, cp and shift are complete once a tcgen05.commit of their thread has arrived on an mbarrier", _COMMIT, ""
    ),
    "missing-mbarrier-wait": CheckRule("who relies on a tcgen05.commit must wait for its mbarrier", _COMMIT, ""),
    "missing-wait-ld": CheckRule(
        "tcgen05.ld has read its cells, and filled its registers, after tcgen05.wait::ld", _WAIT, ""
    ),
    "missing-wait-st": CheckRule("tcgen05.st has written its cells after tcgen05.wait::st", _WAIT, ""),
    "missing-fence-before": CheckRule(
        "a barrier orders the tcgen05 instructions before it only behind a tcgen05.fence::before_thread_sync",
        _FENCE,
        "",
    ),
    "missing-fence-after": CheckRule(
        "tcgen05 instructions come after a barrier or a wait only behind a tcgen05.fence::after_thread_sync", _FENCE, ""
    ),
    "missing-thread-sync": CheckRule(
        "instructions of different warps are ordered by a barrier or an mbarrier alone", _ORDER, ""
    ),
    "missing-proxy-fence": CheckRule(
        "mma and cp see ordinary stores to shared memory after a fence.proxy.async", _PROXY, ""
    ),
}
"""Missing links between two accesses to the same cells."""

CHECK_RULES: dict[str, CheckRule] = {
    **ORDER_RULES,
    "unfinished-at-exit": CheckRule(
        "nobody waits for the end of an asynchronous instruction before the CTA ends",
        _COMMIT,
        "tcgen05.commit, and a wait for its mbarrier",
    ),
    "peer-exited": CheckRule(
        "the other CTA of a pair must not end before a cta_group::2 instruction is complete",
        "PTX ISA 9.0, 9.7.16.10 (tcgen05.mma, cta_group::2)",
        "a wait in the other CTA: tcgen05.commit with .multicast::cluster "
        "and an mbarrier there, or barrier.cluster after the wait",
    ),
    "mbarrier-init-unordered": CheckRule(
        "an mbarrier is used by another warp only after its mbarrier.init",
        "PTX ISA 9.0, 9.7.13.15.9 (mbarrier.init)",
        "bar.sync (in a pair barrier.cluster) between mbarrier.init and the first use",
    ),
    "tmem-alloc-unordered": CheckRule(
        "Tensor Memory that another warp allocates is used after a barrier",
        "PTX ISA 9.0, 9.7.16.7 (Tensor Memory allocation)",
        "bar.sync (in a pair barrier.cluster) between tcgen05.alloc and the first use",
    ),
    "tmem-read-before-write": CheckRule(
        "Tensor Memory holds nothing defined until it is written",
        "PTX ISA 9.0, 9.7.16.1 (Tensor Memory)",
        "write the cells first (tcgen05.st, cp, an mma with enable-input-d 0), or .load tmem[column]",
    ),
    "tmem-overlap": CheckRule(
        "D, A, metadata and scale factors of one mma lie in different cells",
        "not stated by PTX (inferred: such a result depends on timing)",
        "addresses that leave each operand cells of its own",
    ),
    "deadlock": CheckRule(
        "every wait must be for something that comes",
        "PTX ISA 9.0, 9.7.13 (barriers)",
        "the arrival or tcgen05.commit that is waited for",
    ),
    "tmem-alignment": CheckRule(
        "D, A and metadata lie at lane 0, in layouts C and F all "
        "at lane 0 or all at lane 16; metadata at an even column",
        "PTX ISA 9.0, 9.7.16.10.8.5 (alignment restriction)",
        "one lane for all of them, an even column for metadata",
    ),
    "warp-quarter": CheckRule(
        "a warp reaches lanes 32 * (warp mod 4) to + 31",
        "PTX ISA 9.0, 9.7.16.8 (access restrictions)",
        "a base lane in the warp's own quarter",
    ),
    "barrier-use": CheckRule(
        "mbarriers are initialised once, lie aligned in shared memory, and get "
        "the arrivals that they expect; barrier.cluster arrives, then waits",
        "PTX ISA 9.0, 9.7.13.15 (mbarrier), 9.7.13.3 (barrier.cluster)",
        "mbarrier.init by one thread before; counts as the programs arrive",
    ),
    "idesc": CheckRule(
        "an instruction descriptor says what the instruction can do",
        _DESCRIPTOR,
        "a descriptor that `isa.InstructionDescriptor` accepts",
    ),
    "smem-descriptor": CheckRule(
        "a shared memory descriptor names a canonical layout within shared memory",
        _DESCRIPTOR,
        "see docs/descriptors.md",
    ),
    "scale-ids": CheckRule("2X takes scale ids 0 and 2, 4X takes 0", _MMA, "an id of the factor's size"),
    "zero-column-mask": CheckRule(
        "the zero-column mask shifts by at most 16 (M = 32) or 32 columns, and no more than idesc allows",
        _MMA,
        "a legal mask",
    ),
    "aligned-threads": CheckRule(
        "all threads of a warp execute a .sync.aligned instruction, one executes mma, cp, shift and commit",
        _MMA,
        "a guard",
    ),
    "out-of-bounds": CheckRule(
        "an access lies within one buffer of global memory",
        "PTX ISA 9.0, 5.1.4 (global state space)",
        "an address within a buffer",
    ),
    "not-executable": CheckRule(
        "an instruction finds operands that it can work with", "PTX ISA 9.0, 9.7", "operands as the message says"
    ),
}
"""Everything that this package adds to `isa.undefined.RULES`."""


class LaunchRule(NamedTuple):
    """A rule of launches of kernels.

    Attributes:
        rule: what must hold.
        fix: what to do; "" where the finding itself says it.
        exit: the exit code of a check that finds nothing else.
        section: where PTX states it; "" for what is no rule of PTX.
    """

    rule: str
    fix: str = ""
    exit: int = 1
    section: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is a finding; else it is a note, on which no result depends."""
        return self.exit != 0


_ORDERED = (
    *ORDER_RULES, "unfinished-at-exit", "mbarrier-init-unordered", "tmem-alloc-unordered", "tmem-read-before-write",
    "tmem-overlap",
)  # fmt: skip
_DEALLOCATION = "tcgen05.dealloc of the same address and number of columns before the program ends"
_METADATA = "metadata whose codes PTX defines, read from the right place"
_RACES = "PTX ISA 9.0, 8.7.1 (conflict and data races)"
_BARRIER = "PTX ISA 9.0, 9.7.13.1 (bar, barrier)"
_HERE = "a rule of this check, not of PTX"
_REFERENCE = "the results that the capture or the caller expects"
LAUNCH_RULES: dict[str, LaunchRule] = {
    "wrong-result": LaunchRule(
        "every byte of the outputs is the capture's, in all CTAs",
        "look at the operands of these instructions",
        section=_REFERENCE,
    ),
    "read-before-write": LaunchRule(
        "a register, or a byte of memory, is written before its value reaches an output, an address or a branch",
        "write it first",
        section="PTX ISA 9.0, 5.1.1 (register state space), 8.2.6 (initialization)",
    ),
    "shared-memory-race": LaunchRule(
        "something orders the accesses of two threads to the same bytes of shared memory, unless both read",
        "a barrier (or a wait for the copies) between the accesses",
        section=_RACES,
    ),
    "global-memory-race": LaunchRule(
        "something orders the accesses of two threads to the same bytes of global memory, unless both read",
        "an atomic operation, or release and acquire",
        section=_RACES,
    ),
    "benign-race": LaunchRule(
        "of threads that write the same bytes without order, all write the same value", exit=0, section=_RACES
    ),
    "unused-unwritten": LaunchRule(
        "what is read has been written; nobody sees the value that was read here",
        "write it first",
        exit=0,
        section="PTX ISA 9.0, 5.1.1 (register state space), 8.2.6 (initialization)",
    ),
    "declared-bounds": LaunchRule(
        "an access lies within the rows and columns that its array was declared with", section=_HERE
    ),
    "peer-exited": LaunchRule(
        "a CTA of a cluster exits after others have used its shared memory",
        section="PTX ISA 9.0, 9.7.13.3 (barrier.cluster), 5.1.7 (shared state space)",
    ),
    "out-of-bounds": LaunchRule("an access lies within one buffer", section=CHECK_RULES["out-of-bounds"].section),
    "shared-memory-bounds": LaunchRule("an access lies within the shared memory of the CTA"),
    "misaligned-address": LaunchRule("an address is a multiple of the size of the access"),
    "invalid-metadata": LaunchRule("metadata codes are those that PTX defines", _METADATA),
    "unordered-metadata": LaunchRule("the indices of a metadata code ascend", _METADATA),
    "invalid-metadata-tf32": LaunchRule("a 1:2 metadata code is 0b0100 or 0b1110", _METADATA),
    "undefined-metadata-of-zeros": LaunchRule(
        "metadata codes of stored zeros are those that PTX defines (CUTLASS writes 0b0000 there)",
        exit=0,
        section=UNDEFINED["invalid-metadata"].section,
    ),
    "selector-out-of-range": LaunchRule("the sparsity selector names lanes that the shape uses"),
    "uneven-operand": LaunchRule(
        "an address of tcgen05 is the same in a warp, a descriptor or scale-d of wgmma in a warpgroup"
    ),
    "tmem-leak": LaunchRule("a CTA gives back the Tensor Memory that it has allocated", _DEALLOCATION),
    "tmem-pair-lane": LaunchRule("tcgen05.ld and st of a CTA of a pair name lanes 0 to 127"),
    **{name: LaunchRule(CHECK_RULES[name].rule, CHECK_RULES[name].fix) for name in _ORDERED},
    "wgmma-pending": LaunchRule(
        "registers of a wgmma.mma_async are not touched before its group is complete",
        "wgmma.commit_group behind the product, and wgmma.wait_group 0 before the register is used",
    ),
    "wgmma-unfenced": LaunchRule(
        "a wgmma.fence stands between what touched the registers of a wgmma.mma_async and the product",
        "wgmma.fence.sync.aligned before the first product, and after its registers are written or read",
    ),
    "async-pending": LaunchRule(
        "bytes that an asynchronous operation writes or reads are left alone until somebody has waited for it",
        "the wait that is missing, before the access",
    ),
    "async-unexpected": LaunchRule(
        "the phase of an mbarrier waits for the bytes of each copy that completes on it",
        "mbarrier.arrive.expect_tx, or mbarrier.expect_tx, with the bytes of the copy",
    ),
    "async-unfenced": LaunchRule(
        "a fence.proxy.async stands between ordinary stores and an asynchronous operation that reads their bytes",
        "fence.proxy.async by the threads that stored, before the barrier or the operation",
    ),
    "uneven-scale-ids": LaunchRule("byte-id and thread-id of block scales are the same in a warp"),
    "shuffle-from-inactive-thread": LaunchRule("a thread that a shuffle reads from executes it, too"),
    "warp-mask": LaunchRule("a thread is in the membermask that it gives"),
    "aligned-threads": LaunchRule(
        "all threads of a warp come to a .sync.aligned instruction", section=_BARRIER + ", 9.7.14 to 9.7.16 (.aligned)"
    ),
    "barrier-use": LaunchRule(
        "mbarriers are initialised, and get the arrivals that they expect", section=CHECK_RULES["barrier-use"].section
    ),
    "mbarrier-reinitialised": LaunchRule(
        "a valid mbarrier is not initialised again before mbarrier.inval (libraries do it behind a barrier)", exit=0
    ),
    "mbarrier-parity": LaunchRule("the parity that a wait names is 0 or 1 (chips look at its last bit)", exit=0),
    "barrier-mismatch": LaunchRule(
        "as many threads arrive in one use of a barrier as all of them say, and those of the next use behind them",
        "one number of threads, of all that arrive, for each barrier; a barrier of its own for each group of warps",
        section=_BARRIER,
    ),
    "barrier-divergence": LaunchRule(
        "all threads of a warp that have not exited execute an aligned barrier together",
        "the barrier where all threads of the warp come by, outside of the branch",
        section=_BARRIER,
    ),
    "barrier-paired": LaunchRule("warps meet at a barrier of all threads at the same line", exit=0, section=_HERE),
    "mbarrier-phase-reused": LaunchRule(
        "a thread waits once for each phase of an mbarrier",
        "the other parity",
        exit=0,
        section="PTX ISA 9.0, 9.7.13.15.16 (mbarrier.test_wait, mbarrier.try_wait)",
    ),
    "expect-tx-mismatch": LaunchRule(
        "a phase of an mbarrier is told of all bytes that copies bring in it",
        "mbarrier.arrive.expect_tx, or mbarrier.expect_tx, with the bytes of all copies of the phase",
        section="PTX ISA 9.0, 9.7.13.15.5 (tracking asynchronous operations)",
    ),
    "deadlock": LaunchRule("every wait is for something that comes", section=_BARRIER + ", 9.7.13.15 (mbarrier)"),
    "endless-wait": LaunchRule("somebody writes what a loop waits for", section=_HERE),
    "branch-index": LaunchRule("the index of brx.idx is one of its table", section="PTX ISA 9.0, 9.7.12.4 (brx.idx)"),
    "assertion": LaunchRule("what the kernel asserts holds", section="the kernel itself (assert)"),
    "not-executable": LaunchRule("an instruction is one that launches execute", section="docs/opcodes.md"),
    "trap": LaunchRule("the kernel does not stop itself", section="PTX ISA 9.0, 9.7.19.4 (trap)"),
    "instruction-budget": LaunchRule("the launch ends within the budget of warp instructions", section=_HERE),
    "bank-conflict": LaunchRule(
        "an access to shared memory takes no more than 1.25 times the wavefronts that it needs",
        "another stride or a swizzle, so that 8 rows of 16 bytes lie in 32 different banks",
        exit=0,
        section="measured: 32 banks of 4 bytes",
    ),
}
"""What `tcsim check` of a launch may report, and the exit code that follows. What is not here (errors without a rule of
their own) is a finding, too."""


def launch_rule(name: str) -> LaunchRule:
    """The rule of a launch's finding by its name; a plain finding for a name that has none. Where a rule is also one of
    traces or of `isa.undefined`, the section and the fix may be theirs."""
    known = LAUNCH_RULES.get(name) or LaunchRule(UNDEFINED[name].rule if name in UNDEFINED else name)
    if not known.fix:
        known = known._replace(fix=UNDEFINED_FIXES.get(name, ""))
    if known.section:
        return known
    elsewhere = CHECK_RULES.get(name) or UNDEFINED.get(name)
    return known._replace(section=elsewhere.section if elsewhere is not None else "")


NOT_EXECUTABLE = "not-executable"  # the rule of a refusal that names none


def stated(name: str) -> tuple[str, str]:
    """The (rule in words, section) of a rule by its name, in `CHECK_RULES` or `isa.undefined.RULES`."""
    rule = CHECK_RULES.get(name) or UNDEFINED[name]
    return rule.rule, rule.section


UNDEFINED_FIXES: dict[str, str] = {
    "warp-mask": "a mask of all the threads that take part",
    "tmem-leak": _DEALLOCATION,
    "tmem-not-allocated": "tcgen05.alloc of the columns before their use",
    "tmem-use-after-free": "tcgen05.dealloc after the last use",
    "tmem-dealloc-mismatch": "the address that tcgen05.alloc gave, and the number of its columns",
    "tmem-growing-allocation": "the largest allocation first",
    "tmem-alloc-after-relinquish": "tcgen05.relinquish_alloc_permit after the last allocation",
    "tmem-allocation-size": "32, 64, 128, 256 or 512 columns",
    "tmem-bounds": "an address within lanes 0 to 127 and columns 0 to 511",
    "tmem-pair-lane": "the lane within the CTA's own Tensor Memory: 32 * (%warpid mod 4)",
    "undefined-metadata": "one of the codes of docs/tensor_memory.md; for tf32 0b0100 or 0b1110",
    "collector-use-without-fill": "collector::...::fill by an earlier instruction with the same operand, or no ::use",
    "tmem-copies-differ": (
        "the same words in every copy: tcgen05.cp with .warpx2 or .warpx4, or a tcgen05.st by each warp"
    ),
    "uneven-operand": "the same value in all lanes of the warp or warpgroup",
    "shared-memory-race": "bar.sync between the two accesses",
    "read-before-write": "write the register first",
    "shared-memory-bounds": "an address within .shared",
    "misaligned-address": "a multiple of the access's size",
    "wgmma-pending": "wgmma.wait_group before the register is used",
    "wgmma-unfenced": "wgmma.fence before the product",
    "async-pending": "a wait for the operation before the access",
    "async-unexpected": "an expect_tx of the bytes of the copy",
    "async-unfenced": "fence.proxy.async between the store and the operation",
    "mbarrier-reinitialised": "one mbarrier.init, by one thread; mbarrier.inval before the next",
    "mbarrier-parity": "0 or 1: and.b32 with 1",
    "barrier-mismatch": "one number of threads for all warps of a barrier",
}
"""What to do about the cases of `isa.undefined`."""


def markdown() -> str:
    """The rules as a Markdown table, which stands in docs/check.md."""
    lines = ["| rule | what must hold | stated in |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {rule.rule} | {rule.section} |" for name, rule in CHECK_RULES.items()]
    return "\n".join(lines) + "\n"


def launch_markdown() -> str:
    """The rules of launches as a Markdown table, which stands in docs/kernels.md."""
    lines = ["| rule | what must hold | exit code |", "| --- | --- | --- |"]
    for name, rule in LAUNCH_RULES.items():
        lines.append(f"| `{name}` | {rule.rule} | {rule.exit}{'' if rule.counts else ' (a note)'} |")
    return "\n".join(lines) + "\n"
