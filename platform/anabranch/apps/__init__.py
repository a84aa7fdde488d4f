"""Apps: what people touch. Each app only parses, calls the packages before it, and shows what comes back.

``airflow`` has the DAGs, their tasks and forms; ``web`` the pages inside Airflow; ``cli`` the command ``anabranch``,
and how other distributions add to it. ``template`` is the folder that ``anabranch init`` copies.
"""
