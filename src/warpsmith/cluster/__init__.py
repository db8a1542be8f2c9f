"""A suite on more than one machine, by Ray: an actor a GPU or a node, one archive, and no winner on one worker's word."""
