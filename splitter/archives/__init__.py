"""Archives: tar as a stream, read strictly and written reproducibly; Parquet in bounded memory.

members      a member of an archive: its name and its content
reader       bytes -> members
writer       members -> bytes, the same bytes for the same members
row_groups   how many rows of a Parquet file to read at a time
sources      the archives that a user names: files, patterns, braces, URLs or `-`
"""
