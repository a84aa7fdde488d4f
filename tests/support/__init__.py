"""What several tests share, each module named for what it gives."""
