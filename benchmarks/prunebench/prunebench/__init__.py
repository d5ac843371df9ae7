"""A benchmark of context policies: what those of other tools would have cost and lost on recorded sessions."""
