"""The pages generated from explorations: ladder, crash windows, ablation, clauses."""
