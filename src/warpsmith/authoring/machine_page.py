"""The machine sheet for an author: this machine as it was measured, or a GPU that is elsewhere, by its profile.

In: the settings, a target, perhaps the short name of a GPU. Out: text. Raises UsageError for a GPU without a profile.
"""

from __future__ import annotations

from dataclasses import replace

from ..config import Config
from ..facts import Facts, local_facts
from ..targets.machine_sheet import describe_machine, find_gpu
from .describe import find_peaks, name_hardware


def write_machine_page(config: Config, target: str, gpu: str = "") -> str:
    facts = find_gpu(gpu) if gpu else _measure_facts(config, target)
    return f"# The machine that units are timed on\n\n{describe_machine(target, facts, facts.arch)}\n"


def _measure_facts(config: Config, target: str) -> Facts:
    """This machine's, with the rates that the judge measures by; a GPU's profile where there is none."""
    facts, peaks = local_facts(target), find_peaks(config, target)
    if peaks is None:
        return facts
    rates = peaks.read or peaks.copy_
    return replace(
        facts,
        bandwidth=rates[max(rates)] if rates else facts.bandwidth,
        flop_rate=peaks.flops,
        device=name_hardware(target),
    )
