"""Rewards: what a judge's word is worth to somebody who learns from it, as one number with its parts and its evidence."""
