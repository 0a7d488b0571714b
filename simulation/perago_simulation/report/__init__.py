"""A simulated run as the ``Story`` that ``perago_report`` shows: ``story`` tells it, ``graph`` draws the commits."""
