"""What must hold: the properties that worlds, executions and tables are judged by, and the register of all clauses."""
