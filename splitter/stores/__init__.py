"""Object stores and other URLs: their clients, their objects, their listings.

clients    one client for each store
faults     the meaning of the errors that stores raise
retries    the one rule for repeating requests
files      files at URLs: their sizes and versions, copies, and the one file object that reads ranges
objects    objects that appear whole or not at all
threads    requests in threads, with their errors
listings   the files of a remote folder, and lists read from a URL
"""
