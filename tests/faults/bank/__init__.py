"""A bank whose money is counted by readers while everything that writes is killed.

``customers`` open accounts and make transfers; ``operations`` are the platform's own programs, and their kills;
``readers`` keep what they see, and ``truth`` says afterwards, from landing's rows alone, what they had to see.
"""
