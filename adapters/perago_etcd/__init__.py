"""The coordination port on etcd, for workers on several machines."""
