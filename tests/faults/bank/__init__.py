"""The bank test: readers check a constant total of money while the processes that write are killed.

``customers`` sends accounts and transfers to the log. ``operations`` runs the platform's own programs in processes, and
kills them. ``readers`` reads by every engine and records what it sees. ``truth`` computes from landing alone what each
of these reads had to see.
"""
