"""The files of the person's project: paths, reading, writing, editing, walking."""
