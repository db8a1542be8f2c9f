"""The knowledge of the agents: a written knowledge base with full-text retrieval, good kernels of the archive, lessons of runs."""
