"""Facts about what messages say: calls and their outcomes, shell commands, answers, utterances, names."""
