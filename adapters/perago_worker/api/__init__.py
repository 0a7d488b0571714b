"""What task authors declare with: tasks, workspaces, checks, progress, and what they are made into."""
