"""The search: rounds of competing candidates, proposed from hypotheses, tunables and parents, until a budget or the gain ends."""
