"""Processes, signals and memory: what the operating system does for splitter.

children            child processes: how they die with their parent, and how they are ended
pool                a function over many items, in forked processes
gate                processes wait here until one of them opens it
signals             signals during a run: held back, or raised as `Interrupted`
exit_signals        signals while no run is on: an exit code, and no traceback
programs            programs that a recipe or a command starts
reaper              the process that ends what a killed process has started
capture             what user code prints, for the driver to print
stderr              the error stream of C libraries, silenced
memory              the memory that a process takes, and files in memory
cpus                the CPUs that this process may use
pickling            a value pickled together with the code of its class
recipe_code         a recipe's code, on its way to another machine
imports             heavy imports, made quick
temporary_folders   temporary folders, and what killed processes left of them
durability          files and folders forced to disk, and whether the machine was restarted
package             the folder of splitter's own code
"""
