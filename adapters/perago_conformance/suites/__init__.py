"""The suites, one for each port: functions that pytest collects wherever they are imported."""
