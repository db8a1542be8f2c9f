"""A profile as authors see it: where the reference spends its time here, baselines, limit, what was seen of the fastest units.

In: an open session and the archive's best of its task. Out: a view whose figures do not contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import outcomes
from .author_views import NodeTime, ProfileView
from .describe import name_hardware
from .fixed_baseline import contradicts, is_noisy

if TYPE_CHECKING:
    from .author_session import AuthorSession
    from .task_queries import TaskQueries

MOST_NODES = 20
MOST_CANDIDATES = 3


def view_profile(queries: TaskQueries, session: AuthorSession, owner: str) -> ProfileView:
    judge, task = session.judge, session.task
    contradiction = contradicts(judge.node_us, judge.baselines.get("eager"))
    slowest = [] if contradiction else sorted(judge.node_us.items(), key=lambda item: -item[1])[:MOST_NODES]
    noisy = [b.name for b in judge.baselines.values() if b.ok and is_noisy(b)]
    notes = [contradiction] if contradiction else []
    notes += [f"the machine was too busy to time {', '.join(noisy)}"] if noisy else []
    notes += ["quarantined", *session.doubts] if session.doubts else []
    best = queries.board(task, owner)[:MOST_CANDIDATES]
    candidates = [c for row in best if (c := queries.archive.candidate(row.candidate)) is not None]
    results = [e.result for e in queries.archive.results(task.id, queries.target_name)]
    lines = [line for c in candidates for line in outcomes.describe_profiles(c, results)]
    return ProfileView(
        task=task.name, hardware=name_hardware(queries.target_name), limit_us=judge.limit.seconds * 1e6,
        bound=judge.limit.bound, peaks=judge.limit.peaks, least_bytes=judge.limit.least_bytes, flops=judge.limit.flops,
        baselines={b.name: b.median_us for b in judge.baselines.values() if b.ok and b.name not in noisy},
        nodes=tuple(NodeTime(node=n, op=task.graph.by_name[n].op, us=round(us, 2)) for n, us in slowest),
        units=tuple(dict.fromkeys(lines)), notes=tuple(notes),
    )  # fmt: skip
