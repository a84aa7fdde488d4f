"""Sample data: the real flights of 2013 as events, and faults made on purpose. The platform itself doesn't use it."""
