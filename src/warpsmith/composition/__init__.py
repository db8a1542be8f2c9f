"""Winners of several layers put into one model: composed, compared with the original as a whole, measured side by side, and pruned."""
