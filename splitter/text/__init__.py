"""Text that comes back as it went in, text for people, and what names of files say.

csv             CSV, written and read so that every text comes back as it went in
show            numbers, sizes, durations and failures, written for people
sizes           `500MB` as a number of bytes
spelling        the name that was probably meant
urls            the parts of a URL, and which of them are secret
content_types   the content type of a file, by its ending
endings         the endings of sound files: the one list of them
"""
