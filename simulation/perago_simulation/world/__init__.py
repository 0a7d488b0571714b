"""The simulated world: its state, its settings, everything that can happen next in it, and what each move does."""
