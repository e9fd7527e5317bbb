"""The output folder: splitter writes everything through this package, each file whole or not at all.

layout              the names and keys of an output folder
naming              the output names that --name makes, and which inputs could share one
base                the interface `Storage`, which combines four small ones
opening             the storage for an --output
folder              an output on a local or shared file system: set it up, inspect it
folder_files        read and write the files of `.splitter` in a folder
folder_publishing   stage and publish outputs in a folder
folder_steps        single changes to a folder: rename, remove, sync
remote              an output in an object store: take ownership of it, inspect it
remote_files        read and write the files of `.splitter` in a store
remote_publishing   stage outputs on this machine, and publish them in a store
remote_access       access to a store, and the meaning of its errors
locks               the locks of an output folder
ownership           the replacement for locks in an object store
content             write the content of an output to a file or to memory, with size and checksum
checked_file        a small file that contains its own checksum
names               which names may be opened, written, moved or removed
tree                the files below a folder, without following links
"""
