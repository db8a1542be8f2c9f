"""A GPU's clocks, temperature and power during a measurement. They are read and logged, never set.

Nothing in; numbers by name out, as nvidia-smi tells them: empty where there is no GPU. No torch here.
"""

from __future__ import annotations

from ... import machine

# Our name → nvidia-smi's (`nvidia-smi --help-query-gpu`).
FIELDS = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "temperature_c": "temperature.gpu",
    "power_w": "power.draw",
    "throttle_reasons": "clocks_throttle_reasons.active",  # bits: 4 power cap, 8 and 64 hardware, 32 heat
}


def read() -> dict[str, float]:
    """The fields that this GPU reports. Takes some tens of milliseconds."""
    values = machine.query_gpu(tuple(FIELDS.values()))
    if values is None:
        return {}
    state = {name: number(text) for name, text in zip(FIELDS, values, strict=True)}
    return {name: value for name, value in state.items() if value is not None}


def free_bytes() -> int:
    """Free bytes of the GPU's memory; 0 where that cannot be told."""
    values = machine.query_gpu(("memory.free",))
    return int((number(values[0]) or 0.0) * 2**20) if values else 0


def number(text: str) -> float | None:
    """A decimal or hexadecimal number; None for "[N/A]" and the like."""
    try:
        return float(int(text, 16)) if text.lower().startswith("0x") else float(text)
    except ValueError:
        return None
