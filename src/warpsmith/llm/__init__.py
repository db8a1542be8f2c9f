"""Language models: asked, paid, bounded and recorded. What they are asked is the agents' affair."""
