"""What is known of a candidate beyond its verdict and its time: observers that each look at one thing, and the
sanitizers that a winner must pass.
"""
