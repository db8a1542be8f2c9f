"""The device that the judge measures on: who may use it when, its memory, its caches, its clocks."""
