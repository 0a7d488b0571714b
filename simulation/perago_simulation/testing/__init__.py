"""For tests of your own store, table or runtime: Hypothesis strategies, a state machine, the trial."""
