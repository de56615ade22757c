"""The timing class of each machine instruction (SASS), and which instructions of the PTX it can do the work of.

Sources: "measured" are the pipes that sequences of one opcode took on an H200 (docs/validation.md; the classes of
`isa.forms.record.Time`); "as X" is assumed to be like X, because it goes to the same pipe by its family of opcodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from isa.forms.record import Time


class Sort(NamedTuple):
    """How the timing model treats an opcode.

    Attributes:
        time: its timing class; INTEGER also for an opcode that takes an issue slot alone.
        slow: whether its result comes from a unit beside the pipes.
        own: timing classes of the PTX instructions whose access, product or wait it can be.
        tests: whether it writes predicates.
        source: where this is known from.
    """

    time: Time = Time.INTEGER
    slow: bool = False
    own: tuple[Time, ...] = ()
    tests: bool = False
    source: str = "as INTEGER"


_GLOBAL = (Time.LOAD_GLOBAL, Time.STORE_GLOBAL)
_ANY = (*_GLOBAL, Time.LOAD, Time.STORE)


def _rows(names: str, sort: Sort) -> dict[str, Sort]:
    return dict.fromkeys(names.split(), sort)


SORTS: Mapping[str, Sort] = {
    **_rows("IMAD IMUL", Sort(Time.MULTIPLY, source="measured: the pipe that multiplies; IMAD.MOV, .SHL, .IADD too")),
    **_rows("FFMA FADD FMUL FSWZADD", Sort(Time.FLOAT, source="measured: the pipe of IMAD")),
    **_rows("HADD2 HMUL2 HFMA2 HMNMX2", Sort(Time.FLOAT, source="as FFMA")),
    **_rows("IADD3 VIADD IABS LEA LOP3 SHF SHL SHR BMSK SGXT PRMT SEL MOV IMNMX VIMNMX VIADDMNMX FMNMX FSEL I2FP F2FP "
            "P2R R2P FCHK LOP IDP VIMNMX3 CS2R", Sort(source="measured: the other integer pipe; others as these")),
    **_rows("ISETP FSETP HSETP2 PLOP3 PSETP", Sort(tests=True, source="measured: predicate_latency of [alu]")),
    **_rows("DADD DMUL DFMA DSETP DMNMX", Sort(slow=True, source="assumed: as a shuffle")),
    **_rows("SHFL", Sort(Time.SHUFFLE, slow=True, source="measured: shuffle of [sequences]")),
    **_rows("S2R S2UR LDC MUFU POPC FLO BREV F2I I2F F2F FRND VOTE REDUX MATCH R2UR LEPC B2R MOVM QSPC",
            Sort(slow=True, source="assumed: as a shuffle, which takes the same path")),
    **_rows("ULDC UIADD3 UIMAD ULEA ULOP3 USHF UMOV USEL UPRMT USGXT UFLO UPOPC UBREV VOTEU UP2UR UR2UP UVIADD",
            Sort(source="assumed: as in the pipe of integers")),
    **_rows("UISETP UPLOP3", Sort(tests=True, source="as ISETP")),
    **_rows("LDG", Sort(own=_GLOBAL, source="memory of the PTX")),
    **_rows("LD ST", Sort(own=_ANY, source="memory of the PTX")),
    **_rows("STG ATOM ATOMG RED REDG", Sort(own=_GLOBAL, source="memory of the PTX")),
    **_rows("LDS STS ATOMS REDS", Sort(own=(Time.LOAD, Time.STORE), source="memory of the PTX")),
    **_rows("LDSM", Sort(own=(Time.LOAD_MATRIX,), source="memory of the PTX")),
    **_rows("LDGSTS", Sort(own=(Time.COPY,), source="memory of the PTX")),
    **_rows("LDGDEPBAR DEPBAR", Sort(own=(Time.COPY_GROUP,), source="cp.async.commit_group and wait_group")),
    **_rows("ARRIVES", Sort(own=(Time.COPY_ARRIVAL,), source="cp.async.mbarrier.arrive")),
    **_rows("MEMBAR", Sort(own=(Time.FENCE,), source="an issue slot, and an answer of L2 for the whole chip")),
    **_rows("SYNCS", Sort(own=(Time.MBARRIER,), source="[mbarrier]")),
    **_rows("BAR", Sort(own=(Time.BARRIER,), source="[barrier]")),
    **_rows("UCGABAR_ARV UCGABAR_WAIT", Sort(own=(Time.CLUSTER_BARRIER,), source="[cluster]")),
    **_rows("HMMA IMMA BMMA QMMA DMMA", Sort(Time.TENSOR, own=(Time.TENSOR,), source="[[tensor]]")),
    **_rows("LDL", Sort(Time.LOAD, slow=True, source="assumed: local memory in L1, with the time of shared memory")),
    **_rows("STL", Sort(Time.STORE, source="as LDL")),
    **_rows("BRA BRX JMP EXIT RET CALL BSSY BSYNC BREAK BMOV NOP WARPSYNC ERRBAR CCTL CCTLL NANOSLEEP YIELD "
            "KILL BPT PREEXIT ENDCOLLECTIVE FENCE", Sort(source="an issue slot")),
}  # fmt: skip
UNKNOWN = Sort(source="assumed: an opcode without a row takes the time of integer arithmetic")
