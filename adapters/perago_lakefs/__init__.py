"""The store on lakeFS: translates answers of its API, decides nothing."""
