"""The roofline: measured peak rates of the machine, the least time a task can take there, and each unit beside it."""
