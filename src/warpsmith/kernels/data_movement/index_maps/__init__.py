"""Data movement as a map from output elements to the input elements that they come from."""
