"""Homes that older versions have written, as they were left: one archive for each, and the script that made it.

Whoever raises a format adds an archive that holds the one before (``tests/unit/upgrade/test_format_fixtures.py``
requires it): copy ``make_home_46c6225.py``, let it run by the code of the last commit before the change, and name its
commit."""
