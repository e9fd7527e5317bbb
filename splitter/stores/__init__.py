"""Object stores and other URLs: their clients, their objects, their listings.

clients    one client for each store
faults     what the errors of stores mean
retries    the one rule by which requests are repeated
files      files at URLs: looks, copies, and the one file object that reads ranges
objects    objects that appear whole or not at all
threads    requests in threads, with their errors
listings   the files of a remote folder, and lists that are read from a URL
"""
