"""What runs: the parts of the platform as data, one supervisor that starts and watches them, and their stop."""
