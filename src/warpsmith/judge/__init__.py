"""The judge: built candidates in, verdicts and timings out. No verdict is computed where candidate code ran.

Imports between its packages go one way, which `tests/test_layers.py` enforces. Lowest first:
`layout`, `labels`, `sample_rows` · `device` · `isolation` · `timing` · `roofline` and `correctness` · `admission` ·
`building` · `judge_session` · `judge` and `task_check`.
"""
