"""Where outputs are, and what is known of them.

base         the seam; behind it folder, on a file system, and remote, in a store
content      a content -> a file, with its size and checksum
stores       the clients of stores; objects, whole or not at all; listings, what is there
locks        which run a folder belongs to; ownership, the same in a store
sealed       small files that say whether they are whole
"""
