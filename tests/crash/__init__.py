"""Kill every commit: a sweep of SIGKILLs, each exactly before or after one change of the file system."""
