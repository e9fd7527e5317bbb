"""Archives: tar as a stream, read strictly and written reproducibly; Parquet in bounded memory.

members      a member of an archive, its content and its name
reader       bytes -> members
writer       members -> bytes, always the same
row_groups   how many rows of a Parquet file are read at a time
sources      the archives that a user names: files, patterns, braces, URLs or `-`
"""
