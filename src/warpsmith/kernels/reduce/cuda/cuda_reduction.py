"""Pointwise chains, reductions, softmax, norms and losses on a GPU, from the lowering that the C++ families share.

In: a graph and a region. Out: techniques, which differ in how many threads share a row (or stand above a column) and in
where the row waits between passes: in registers, in shared memory, or in device memory, and whether blocks share a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ....codegen.cuda.cuda_source import CudaBody
from ....codegen.cuda.lanes import CudaLayout, writes_across
from ....codegen.lowering.axis_relations import base_name
from ....codegen.lowering.lower import lower, try_lower
from ....codegen.passes import passes
from ....codegen.program import Program
from ....facts import Facts
from ....hardware import Hardware
from ....records import Graph, Region, Tunable, Unit
from ...cuda_tunables import bottleneck_of, list_memory_tunables
from ...cuda_unit import WIDTH, cuda_unit, in_load, pack, power, smem_kib
from ...family import Technique, elements_per_reduction, extent_of_group, extent_of_rows, tunable
from ..reduction_pattern import COMPOUND, NORM, ReductionFamily
from ..schedules.persistent_rows_schedule import staying
from ..schedules.row_reduction_schedule import ClusterReductionSchedule, ReduceSchedule, SmemResidentSchedule
from .cluster_dsmem import ClusterReduction
from .column_register_resident import ColumnRegisterResident, in_columns
from .column_vectorized import ROOM, ColumnVectorized, room, side_by_side
from .persistent_rows import PersistentRows
from .row_reduction import RowReduction
from .row_rings import RowRing
from .split_row import SplitRowReduction

IN_REGISTERS = 32  # elements of a row that a thread keeps
BLOCK_COLUMNS = 64  # columns side by side in a block
PACKS_WIDE = 32  # packs of columns side by side in a block
# How the body of a technique is written; that of others reads a row again.
BODIES: Mapping[str, Callable[[Program], CudaBody]] = MappingProxyType({
    "persistent-cluster": lambda program: PersistentRows(program, near=True).body(),
    "persistent-cooperative": lambda program: PersistentRows(program, near=False).body(),
    "cluster-dsmem": lambda program: ClusterReduction(program).body(),
    "split-row": lambda program: SplitRowReduction(program).body(),
    "column-vectorized": lambda program: ColumnVectorized(program).body(),
    "column-register-resident": lambda program: ColumnRegisterResident(program).body(),
    "register-resident": lambda program: RowReduction(program, "registers").body(),
    "smem-resident": lambda program: RowReduction(program, "shared").body(),
})  # fmt: skip


class CudaReduction(ReductionFamily):
    def techniques(self, graph: Graph, region: Region, facts: Facts) -> list[Technique]:
        program = try_lower(graph, region)
        if program is None or program.mode == "pointwise":
            return []
        compound = any(base_name(graph.by_name[n]) in COMPOUND | NORM.ops for n in region.nodes)
        shaped = Shaped(graph, region, program, compound, facts.hardware)
        stays = shaped.offer_persistent()
        cluster = shaped.offer_cluster() if all(t.name != "persistent-cluster" for t in stays) else None
        resident_techniques = (
            shaped.offer_registers(),
            shaped.offer_column_registers(),
            shaped.offer_shared(),
            cluster,
            *stays,
        )
        offered = (
            *resident_techniques,
            shaped.offer_packs(),
            shaped.offer_multi_pass(),
            shaped.offer_split(),
        )
        return sorted((t for t in offered if t is not None), key=lambda t: -t.gain)

    def write(self, graph: Graph, region: Region, technique: Technique) -> Unit:
        body = emit_reduction(lower(graph, region, technique.single_pass), technique.name)
        return cuda_unit(body, region, technique, self.name)


class Shaped:
    """A region with reductions at its main shapes, and what they say for each technique."""

    def __init__(
        self, graph: Graph, region: Region, program: Program, compound: bool, hardware: Hardware
    ) -> None:
        self.graph, self.region, self.program, self.compound = graph, region, program, compound
        self.hardware, self.kib = hardware, smem_kib(hardware)
        self.n, self.rows = elements_per_reduction(program, graph), extent_of_rows(program)
        self.columns = extent_of_group(program, len(program.groups) - 1) if program.mode == "columns" else 0
        across = writes_across(program)
        self.vec = 1 if self.columns and not across else pack(program, graph)
        self.kept = (
            8 if self.columns and not across else 4 * self.vec
        )  # elements of a thread that keeps its part
        self.again = len(passes(program)) > 1  # is a row walked more than once?
        self.row_bytes = self._count_resident_bytes(lower(graph, region, compound))
        self.emit_ragged_test = CudaLayout(program).lead is not None

    def offer_registers(self) -> Technique | None:
        """A thread keeps up to 32 elements."""
        bytes_in_registers = self._count_resident_bytes(self.program)
        spare = 1 if self.emit_ragged_test else 0  # the ends of a row take registers, too
        if not bytes_in_registers or bytes_in_registers > (4 - spare) * IN_REGISTERS * self._limit_group():
            return None
        group = min(self._limit_group(), power(self.n / self.kept))
        smallest = max(1, power(self.n / IN_REGISTERS))
        groups = [g for g in (2 * group, group // 2, 4 * group) if smallest <= g <= self._limit_group()]
        why = "each thread keeps its part of a row in registers: every element is read once"
        return self._technique(
            "register-resident", why, ReduceSchedule(group=group).tunables(group=groups), 1.4
        )

    def offer_column_registers(self) -> Technique | None:
        """Offer registers as `offer_registers` does, for a thread with packs of columns."""
        contiguous = in_columns(self.program) if self.columns >= BLOCK_COLUMNS else []
        if not contiguous:
            return None
        vec = min(in_load(o.dtype) for o in contiguous)
        group = max(power(self.n * vec * len(contiguous) / (3 * IN_REGISTERS)), vec)
        largest = min(1024 // PACKS_WIDE, ROOM // room(self.program, PACKS_WIDE * vec))
        if group > largest:
            return None
        groups = [g for g in (2 * group, group // 2) if 1 < g <= largest]
        why = "each thread keeps packs of neighbouring columns in registers: every element is read once, 16 bytes a load"
        sizes = ReduceSchedule(group=group, wide=PACKS_WIDE).tunables(group=groups, wide=(16,))
        return self._build_technique("column-register-resident", why, sizes, 1.45 if vec > 4 else 1.35)

    def offer_shared(self) -> Technique | None:
        """One block a row."""
        if not self.row_bytes or self.columns or self.n < 1024:
            return None
        keep = next((k for k in self.kib if 1024 * k >= self.row_bytes), self.kib[-1])
        schedule = SmemResidentSchedule(keep, group=1024 if self.row_bytes > 64 << 10 else 512)
        why = "a block keeps its row in shared memory between passes; what does not fit is read again"
        gain = 1.3 if schedule.holds(self.row_bytes) else 1.0
        return self._technique("smem-resident", why, schedule.all_tunables(self.kib), gain, self.compound)

    def offer_cluster(self) -> Technique | None:
        """A cluster of up to sixteen blocks a row; of eight unless tried."""
        block_bytes = 512 * self.kib[-1]  # of a row in a block: two such blocks share a multiprocessor
        if self.columns or self.row_bytes < block_bytes:
            return None
        blocks = next((c for c in (2, 4, 8) if self.row_bytes <= c * block_bytes), 8)
        schedule = ClusterReductionSchedule(blocks, keep_kib=self.kib[-1])
        why = "a cluster of blocks keeps a row in its shared memory, so that every element is read once"
        gain = 1.5 if schedule.holds(self.row_bytes) else 0.8
        return self._technique("cluster-dsmem", why, schedule.all_tunables(self.kib), gain, self.compound)

    def offer_persistent(self) -> list[Technique]:
        """Teams of blocks that stay on the GPU, each with one row after the other."""
        program = lower(self.graph, self.region, self.compound)
        plan = passes(program)
        simple = len(plan) == 2 and plan[-1].last and not program.ends
        if self.columns or self.emit_ragged_test or not simple or not self.row_bytes:
            return []
        schedules = staying(self.hardware, self.row_bytes, self.rows, RowRing(program).beside)
        return [self._technique(s.technique, s.why, s.sizes, s.gain, self.compound) for s in schedules]

    def offer_multi_pass(self) -> Technique:
        group = min(self._limit_group(), 512, power(self.n / (8 * self.vec)))
        why = "threads walk a row side by side, several loads of each under way"
        sizes = self._walking(group)
        single = self.compound and bool(self.program.reductions)
        if single:
            why += "; both states of the reduction from one pass"
        return self._technique("multi-pass", why, sizes, 0.9 if self.again else 1.2, single)

    def offer_packs(self) -> Technique | None:
        """A thread has several columns."""
        operand = (
            side_by_side(self.program) if self.columns >= BLOCK_COLUMNS and self.n >= BLOCK_COLUMNS else None
        )
        if operand is None:
            return None
        per_load = in_load(operand.dtype)
        groups = [g for g in (32, 16, 8) if room(self.program, g * (PACKS_WIDE + 1) * per_load) <= ROOM]
        why = "threads walk packs of neighbouring columns, wherever rows begin: 16 bytes a load"
        schedule = ReduceSchedule(group=groups[0], unroll=2, wide=PACKS_WIDE)
        sizes = schedule.tunables(group=groups, unroll=(4, 8), wide=(16,))
        enough = self.rows * self.columns >= 2 * self.hardware.sm_count_rounded * PACKS_WIDE * per_load
        return self._build_technique("column-vectorized", why, sizes, 1.3 if enough else 0.7)

    def offer_split(self) -> Technique | None:
        """Blocks share a row where rows are too few to fill the GPU."""
        wide = power(min(BLOCK_COLUMNS, self.columns)) if self.columns else 1
        bundles = -(-self.rows // wide)
        long = self.row_bytes > 8 * 1024 * self.kib[-1]  # too long even for a cluster
        if (
            not self.program.reductions
            or self.n < 2048
            or bundles >= (64 if long else 4) * self.hardware.sm_count_rounded
        ):
            return None
        group = 8 if self.columns else 256 if self.n < 1 << 16 else 512
        # Many parts, so that the last ones end together.
        target_parts = max(power(16 * self.hardware.sm_count_rounded / bundles), 4 if long else 1)
        parts = min(target_parts, power(self.n / (group * self.vec * 4)))
        if parts < 2:
            return None
        why = "few long rows: blocks share each of them; their states meet in a fixed order"
        alternatives = [p for p in (parts // 2, parts * 2, parts * 4) if 2 <= p <= 4096]
        sizes = self._walking(group, parts, alternatives)
        few_bundles = bundles < self.hardware.sm_count_rounded
        return self._technique("split-row", why, sizes, 2.0 if few_bundles else 1.1, self.compound)

    def _walking(
        self, group: int, split: int | None = None, splits: Sequence[int] = ()
    ) -> tuple[Tunable, ...]:
        """Sizes where threads read a row again; more packs are under way where a pack is one element."""
        unrolls = (8, 4, 16) if self.columns and self.vec == 1 else (4, 2, 8)
        schedule = ReduceSchedule(split, group, unrolls[0])
        return schedule.tunables(split=splits, group=self._list_groups_around(group), unroll=unrolls)

    def _count_resident_bytes(self, program: Program) -> int:
        """Return the bytes of a row that several passes read."""
        reads = [
            {s.operand for s in program.list_needed_steps(list(p.sources)) if s.operand}
            for p in passes(program)
        ]
        read_twice = {
            o for i, r in enumerate(reads) for o in r if any(o in later for later in reads[i + 1 :])
        }
        return sum(WIDTH.get(o.dtype, 1) for o in read_twice) * self.n

    def _limit_group(self) -> int:
        """Threads that may share a row; those of a block above one column."""
        return 16 if self.columns else 1024

    def _list_groups_around(self, group: int) -> list[int]:
        return [g for g in (2 * group, group // 2, 4 * group, group // 4) if 1 <= g <= self._limit_group()]

    def _technique(
        self, name: str, why: str, own: tuple[Tunable, ...], gain: float, single: bool = False
    ) -> Technique:
        if self.columns:
            wide = power(min(BLOCK_COLUMNS, self.columns))
            columns_tunable = tunable(
                "BLOCK_COLUMNS", wide, *(w for w in (64, 32, 16) if w != wide and w // 2 < self.columns)
            )
        else:
            columns_tunable = tunable("BLOCK", 128, 256, 64) if _within_warp(own) else tunable("BLOCK", 128)
        return self._build_technique(name, why, (*own, columns_tunable), gain, single)

    def _build_technique(
        self, name: str, why: str, own: tuple[Tunable, ...], gain: float, single: bool = False
    ) -> Technique:
        common = list_memory_tunables(self.graph, self.region, self.program, self.hardware)
        return Technique(
            name, why, bottleneck_of(self.program), (*own, *common), single_pass=single, gain=gain
        )


def emit_reduction(program: Program, technique: str) -> CudaBody:
    return BODIES.get(technique, _read_again)(program)


def _read_again(program: Program) -> CudaBody:
    """A row is read again in each pass."""
    return RowReduction(program, "none").body()


def _within_warp(own: tuple[Tunable, ...]) -> bool:
    return any(t.name == "GROUP" and min(t.domain) <= 32 for t in own)
