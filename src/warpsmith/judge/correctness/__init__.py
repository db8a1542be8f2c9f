"""Correctness: inputs, the float64 truth about them, error budgets, and the verification of units against both."""
