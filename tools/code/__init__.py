"""Tools whose author wrote a program: what runs it, behind which walls, what it may ask for."""
