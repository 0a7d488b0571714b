"""A simulated run as the ``Story`` that ``perago_report`` shows."""
