"""Object stores and other URLs: their clients, their objects, their listings.

clients    one client for each store, what its errors mean, and the retries
objects    objects that appear whole or not at all
threads    requests in threads, with their errors
listings   the files of a remote folder, and lists that are read from a URL
"""
