"""Core: what every other package uses, and what uses none of them.

In: environment variables and the machine. Out: settings, errors, Spark sessions, files that are written safely.

1. ``settings`` reads the configuration; ``errors`` defines the one tree of errors;
2. ``spark`` creates the session, ``engine_check`` validates the user's Spark settings;
3. ``engine_tasks``, ``liveness`` and ``clocks`` detect engines that hang, ``die_with_parent`` ends orphaned ones;
4. ``atomic_files`` and ``control_objects`` write small files that several processes share;
5. ``terminal_text`` escapes text for terminals, ``quantities`` formats counts and durations for people,
   ``strict_json`` reads JSON;
6. ``old_names`` keeps old import names working.
"""
