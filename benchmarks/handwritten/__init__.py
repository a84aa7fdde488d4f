"""The same work without the platform, as a good engineer would write it with Spark and Delta alone."""
