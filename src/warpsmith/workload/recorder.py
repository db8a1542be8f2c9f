"""Records the calls of modules while a user's own code runs: what each was given, in which mode, and how long it took.

In: a span of time in which `torch.nn.Module.__call__` is ours. Out: `CallGroup`s, one for each module and kind of call. Compiled code
runs eagerly meanwhile, so that its submodules are recording. The time that the recording itself takes is not counted. On a GPU the time of
a call lies between two events of its stream; the recording made it longer where the device waited for the host.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch

from ..errors import UsageError
from ..tasks.module_state import Snapshot
from .calls import CallForm, copy_example, describe_call, describe_result
from .kinds import describe_kind
from .tapes import Step, Tape, sign

# Forms of calls with one first input that change an instance of one class, after which no further one is looked at.
MOST_CHANGING = 8
_RUNNING = threading.Lock()
Event = Any  # of torch.cuda


@dataclass(frozen=True)
class Timed:
    """A call on a GPU: its events, the seconds of the host, which the recording took part of, and the calls inside of it."""

    start: Event
    end: Event
    host_s: float
    recording_s: float
    inside: tuple[Timed, ...] = ()

    def settle_s(self) -> float:
        """Return its time without the recording; the device has finished. A device that ran on for as long as the recording took was behind
        the host, and did not wait for it. The calls inside take at least what they take.
        """
        device_s: float = self.start.elapsed_time(self.end) / 1e3
        behind = device_s >= self.host_s + self.recording_s
        return (
            device_s if behind else max(device_s - self.recording_s, sum(t.settle_s() for t in self.inside))
        )


@dataclass
class CallGroup:
    """The calls of one module that are alike."""

    module: torch.nn.Module
    form: CallForm
    modes: list[bool]  # of the module and its submodules, in the order of `modules()`
    outputs: tuple[str, ...] = ()
    result_bytes: int = 0
    trouble: str = ""  # why its result cannot be a task's
    times_s: list[float] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    outermost_calls: int = 0  # that came from no other module
    failures: int = 0  # calls that ended in an exception

    def take_over(self, other: CallGroup) -> None:
        """Add the calls of another group."""
        self.times_s += other.times_s
        self.timed += other.timed
        self.outermost_calls += other.outermost_calls
        self.failures += other.failures

    def settle_times(self) -> None:
        """Turn events into seconds; the device has finished."""
        self.times_s += [timed.settle_s() for timed in self.timed]
        self.timed = []


@dataclass
class Frame:
    """One call that is under way."""

    module: torch.nn.Module
    started_s: float
    overhead_s: float  # that the recording had taken when the call began
    inside: list[Timed] = field(default_factory=list)


class Recorder:
    """Records every call of a module between `start` and `stop`; one at a time in a process."""

    def __init__(self) -> None:
        self.groups: dict[tuple[int, str], CallGroup] = {}
        self.examples: dict[tuple[str, str], tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self.kinds: dict[int, str] = {}
        # By kind and class: nestings of calls that change an instance, each with the call's first input.
        self._changing: dict[tuple[str, str], dict[str, str]] = {}
        self._tapes: dict[
            tuple[int, str], list[Step]
        ] = {}  # by outermost module and form of its call: its last calls inside
        self._local = threading.local()
        self._overhead_s = 0.0
        self._original: Callable[..., Any] | None = None
        self._stance: Any = None

    def start(self) -> None:
        """Raises UsageError where another capture is running."""
        if not _RUNNING.acquire(blocking=False):
            raise UsageError("a capture is running already: end it before the next begins")
        try:
            self._stance = torch.compiler.set_stance("force_eager")
            self._stance.__enter__()
        except BaseException:
            _RUNNING.release()
            raise
        call = self._original = torch.nn.Module.__call__

        @wraps(call)
        def record_call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            return self._record(call, module, args, kwargs)

        torch.nn.Module.__call__ = record_call  # type: ignore[method-assign]

    def stop(self) -> None:
        """Put torch back as it was; then settle times."""
        if self._original is None:
            return
        torch.nn.Module.__call__ = self._original  # type: ignore[method-assign]
        self._original = None
        try:
            self._stance.__exit__(None, None, None)
        finally:
            _RUNNING.release()
        if any(group.timed for group in self.groups.values()):
            torch.cuda.synchronize()
        for group in self.groups.values():
            group.settle_times()

    def _record(
        self, call: Callable[..., Any], module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        stack: list[Frame] = self._local.__dict__.setdefault("stack", [])
        if torch.compiler.is_compiling() or (stack and stack[-1].module is unwrap(module)):
            return call(module, *args, **kwargs)
        entered_s = time.perf_counter()
        module, wrapper = unwrap(module), module
        tape: Tape = self._local.__dict__.setdefault("tape", Tape())
        step, objects = self._find_step(tape if stack else None, module, args, kwargs)
        group = step.group
        outermost = None if stack else (id(module), group.form.key)
        if outermost is not None:
            tape.begin(self._tapes.get(outermost, ()))
            group.outermost_calls += 1
        else:
            tape.note(step)
        before = Snapshot(objects)
        events = _make_events() if group.form.on_gpu else None
        stack.append(Frame(module, 0.0, 0.0))
        self._overhead_s += time.perf_counter() - entered_s
        frame = stack[-1]
        frame.overhead_s, frame.started_s = self._overhead_s, time.perf_counter()
        if events:
            events[0].record()
        try:
            result = call(wrapper, *args, **kwargs)
        except BaseException:
            group.failures += 1
            raise
        finally:
            ended_s = time.perf_counter()
            stack.pop()
        host_s, recording_s = ended_s - frame.started_s, self._overhead_s - frame.overhead_s
        if events:
            events[1].record()
            timed = Timed(*events, host_s, recording_s, tuple(frame.inside))
            group.timed.append(timed)
            if stack:
                stack[-1].inside.append(timed)
        else:
            group.times_s.append(host_s - recording_s)
        if not group.outputs and not group.trouble:
            group.outputs, group.result_bytes, group.trouble = describe_result(result)
        if before.list_changed():
            step.group = self._refuse_changing(group)
        if outermost is not None:
            self._tapes[outermost] = tape.steps
        self._overhead_s += time.perf_counter() - ended_s
        return result

    def _find_step(
        self, tape: Tape | None, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Step, list[Any]]:
        """The step that a call is, and the instances that it may change. `tape`: None for an outermost call."""
        signature = sign(args, kwargs)
        former = tape.follow(module, signature) if tape is not None else None
        if former is not None and self.groups.get((id(module), former.group.form.key)) is former.group:
            return former, []
        group, objects = self._find_group(module, args, kwargs)
        return Step(module, signature, group), objects

    def _find_group(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[CallGroup, list[Any]]:
        """The group of a call, and the instances that the call may change."""
        form, objects = describe_call(module, args, kwargs)
        kind = self.kinds.get(id(module)) or self.kinds.setdefault(id(module), describe_kind(module))
        if not form.trouble and self._is_changing(kind, form):
            form = _refuse(form)
        group = self.groups.get((id(module), form.key))
        if group is None:
            modes = [part.training for part in module.modules()]
            group = self.groups[id(module), form.key] = CallGroup(module, form, modes)
            if not form.trouble and (kind, form.key) not in self.examples:
                self.examples[kind, form.key] = copy_example(module, args, kwargs)
        return group, [] if form.trouble else objects

    def _is_changing(self, kind: str, form: CallForm) -> bool:
        """Tell whether such calls change an instance. A prompt fills one layer's part of a cache after another, each time in another form;
        the tokens that follow change none, and have other inputs.
        """
        changing = self._changing.get((kind, form.holder), {})
        return (
            form.nesting in changing
            or list(changing.values()).count(_name_first_input(form)) >= MOST_CHANGING
        )

    def _refuse_changing(self, group: CallGroup) -> CallGroup:
        """Move the calls of a group whose instances a call has left in another form to those that are no task: the next call is another.
        Return the group that they are in then.
        """
        kind = self.kinds[id(group.module)]
        changing = self._changing.setdefault((kind, group.form.holder), {})
        changing[group.form.nesting] = _name_first_input(group.form)
        self.groups.pop((id(group.module), group.form.key), None)
        self.examples.pop((kind, group.form.key), None)
        group.form = _refuse(group.form)
        refused = self.groups.setdefault((id(group.module), group.form.key), group)
        if refused is not group:
            refused.take_over(group)
        return refused


def _name_first_input(form: CallForm) -> str:
    return next(iter(form.inputs), "")


def _refuse(form: CallForm) -> CallForm:
    return form.refuse(f"its calls change the form of a {form.holder}: only one of a fixed size makes a task")


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module that torch.compile wrapped, or the module itself."""
    return getattr(module, "_orig_mod", module) if is_compiled(module) else module


def is_compiled(module: torch.nn.Module) -> bool:
    """Return whether the module was compiled, as torch.compile(model) or model.compile() do."""
    return type(module).__module__.startswith("torch._dynamo") or module._compiled_call_impl is not None


def _make_events() -> tuple[Event, Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
