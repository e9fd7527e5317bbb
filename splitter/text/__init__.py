"""Text that survives a round trip, text for people, and the meaning of file names.

csv             CSV, written and read so that every text survives a round trip
show            numbers, sizes, durations and failures, written for people
columns         tables that fit the width of a terminal
sizes           `500MB` as a number of bytes
labels          several labels in one cell
conditions      the language of --where
name_template   the fields of --name: read, never executed
spelling        the name that a user probably meant
urls            the parts of a URL, and which of them are secret
content_types   the content type of a file, by its ending
endings         the one list of the endings of sound files
"""
