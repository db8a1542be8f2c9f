"""Admission of a task: every wrong answer must fail on it, and its graph must be the user's module."""
