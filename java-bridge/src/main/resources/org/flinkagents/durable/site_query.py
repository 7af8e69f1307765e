# Run by the Python executable of the job: prints what an embedded interpreter does not find by itself.
import site
import sys

import pemja  # noqa: F401  the job fails here, with the executable's name, where it is not installed

print(sys.executable)
print(sys.prefix)
print(sys.base_prefix)
for path in site.getsitepackages():
    print(path)
if site.ENABLE_USER_SITE:
    print(site.getusersitepackages())
