"""Processes, signals and memory: what the operating system does for splitter.

children            child processes: make them die with their parent, and end them
pool                run a function over many items, in forked processes
gate                a gate where processes wait until one of them opens it
signals             signals during a run: blocked, or raised as `Interrupted`
exit_signals        signals outside a run: an exit code instead of a traceback
programs            programs that a recipe or a command starts
reaper              a process that kills what a dead process has started
capture             capture what user code prints, for the driver to print
stderr              silence the error stream of C libraries
memory              the memory that a process takes, and files in memory
cpus                the CPUs that this process may use
pickling            pickle a value together with the code of its class
recipe_code         send the code of a recipe to another machine; tell whether it has changed
imports             make heavy imports quick
temporary_folders   make temporary folders, and remove those that killed processes left
durability          force files and folders to disk, and notice that the machine was restarted
package             the folder of splitter's own code
"""
