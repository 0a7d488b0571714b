"""The Spark program of the README, with two days of orders to take in."""
