"""What every client of a server shares: answers that end and have a size, and secrets that stay off the wire."""
