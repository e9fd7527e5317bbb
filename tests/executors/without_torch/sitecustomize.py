"""Lets Ray's workers and monitors start sooner, without collecting garbage, and without what they do not use.

Python imports this module when it starts. Guards, runners and Ray's other processes are as ever.
"""

import sys

if any(word.endswith(("/default_worker.py", "monitor.py")) for word in sys.orig_argv[:3]):
    import gc
    from types import ModuleType

    gc.disable()
    # Ray imports these for TPUs and for plugins, and does without the last
    sys.modules |= {name: ModuleType(name) for name in ("requests", "jsonschema")}
    sys.modules["wcwidth"] = None  # type: ignore[assignment]
