"""The output folder: everything splitter writes goes through here, whole or not at all.

layout           the names and keys of an output folder
base             the seam `Storage`
folder           an output on a local or shared file system
remote           an output in an object store
locks            the locks of an output folder
ownership        the same in an object store
content          the content of an output -> a file or memory, with its size and checksum
checked_file     a small file that states its own checksum
unnamed_copies   copies of files that are gone with the process
durability       files and folders forced to disk
names            which names may be opened, written, moved or removed
tree             the files below a folder, with no link followed
"""
