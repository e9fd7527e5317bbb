"""The output folder: everything splitter writes goes through here, whole or not at all.

layout              the names and keys of an output folder
naming              the names that --name gives to outputs, and which inputs could share one
base                the seam `Storage`, which is four small ones
opening             which storage --output names
folder              an output on a local or shared file system: its lock, and a look at all of it
folder_files        the files of `.splitter`, read and written in a folder
folder_publishing   outputs, staged and published in a folder
folder_steps        the single changes to a folder: rename, remove, sync
remote              an output in an object store: its lock, and a look at all of it
remote_files        the files of `.splitter`, read and written in a store
remote_publishing   outputs, staged on this machine and published in a store
remote_access       how a store is reached, and what its errors mean
locks               the locks of an output folder
ownership           what takes the place of a lock in an object store
content             the content of an output -> a file or memory, with its size and checksum
checked_file        a small file that states its own checksum
names               which names may be opened, written, moved or removed
tree                the files below a folder, with no link followed
"""
