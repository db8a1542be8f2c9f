"""Counters of a kernel, as ncu printed them once, in words; and a unit's build beside its parent's."""

from warpsmith.profile import ncu
from warpsmith.profile.counters import describe_counters

RECORDED = """==PROF== Disconnected
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","51,200"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active","%","31.5"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","inst","6.2"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","inst","0.1"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum","","12,288"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio","sector","31.0"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","launch__occupancy_limit_registers","block","2"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","launch__occupancy_limit_shared_mem","block","5"
"0","1","harness","127.0.0.1","gemm(const float *)","1","7","(256,1,1)","(132,1,1)","0","9.0","Command line profiler metrics","launch__registers_per_thread","register/thread","128"
"""


def test_the_counters_say_what_the_kernel_waits_for_and_what_limits_it() -> None:
    lines = describe_counters(ncu.parse(RECORDED)["gemm"])
    assert (
        lines[0]
        == "waits for loads from global or local memory (long_scoreboard: 6.2 stalled warps an issue)"
    )
    assert "uses 32% of the tensor pipe" in lines
    assert "12,288 bank conflicts in shared memory" in lines
    assert "31.0 sectors a global load: uncoalesced, unless each thread takes 16 bytes" in lines
    assert "2 blocks fit a multiprocessor, limited by registers" in lines
    assert not any("barrier" in line for line in lines)


def test_what_was_not_measured_is_not_mentioned_and_changes_are_told() -> None:
    assert describe_counters({}) == []
    before = {"time ns": 60_000.0, "registers per thread": 255.0, "DRAM bytes": 1.0}
    lines = describe_counters({"time ns": 51_200.0, "registers per thread": 128.0, "DRAM bytes": 1.0}, before)
    assert lines == ["against its parent: time ns 60,000 to 51,200, registers per thread 255 to 128"]
