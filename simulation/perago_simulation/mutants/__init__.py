"""Wrong protocols: known bugs and mutated tables, and which property notices each."""
