"""The demo: a data pipeline of orders in which a worker is killed and another one wakes too late."""
