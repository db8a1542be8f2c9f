"""The search: rounds of competing candidates, bred from hypotheses, tunables and parents, until a budget or the gain ends."""
