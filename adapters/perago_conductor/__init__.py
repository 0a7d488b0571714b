"""The orchestrator on Conductor: translates answers of its API, decides nothing.

A package without imports: documents are written also where Conductor's client is not installed.
"""
