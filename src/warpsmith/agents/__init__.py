"""The five agents (reasoning, synthesis, compile, correctness, orchestrator) and the brains that play them.

A brain is the built-in expert (`agents.expert`: rules and a code generator, no key needed) or, later, a
language model.
"""
