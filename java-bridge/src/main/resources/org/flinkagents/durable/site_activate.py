# Run inside an interpreter that has just been opened, after `executable, prefix, paths = ...`.
# Interpreters of one process share `sys`, so that the new path is put in place in one assignment.
import site
import sys

import pemja

foreign = [] if sys.prefix == prefix else site.getsitepackages()  # those of the base installation
sys.executable = executable
sys.prefix = sys.exec_prefix = prefix
site.PREFIXES[:] = [prefix]
kept = [path for path in sys.path if path not in foreign and path not in paths]
sys.path[:] = list(dict.fromkeys(kept + paths))
activated = pemja.__dict__.setdefault("_activated_site_packages", set())
for path in paths:
    if path not in activated:
        activated.add(path)
        site.addsitedir(path)  # runs the .pth files, which editable installations need
