"""Settings and where their values come from, the windows of models, and what installed packages register."""
