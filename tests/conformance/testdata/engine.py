# engine.py DIR SLOWNESS ARGS...: runs bpftrace's own test engine, DIR/main.py, in
# the same way as its build, but provides what the build and a package manager would
# have added: the file that cmake generates, and the module looseversion. All time
# limits are multiplied by SLOWNESS.
import re
import runpy
import sys
import types

engine, slowness = sys.argv[1], int(sys.argv[2])
sys.argv = [engine + "/main.py"] + sys.argv[3:]
sys.path.insert(0, engine)
sys.dont_write_bytecode = True

built = types.ModuleType("cmake_vars")
built.LIBBCC_BPF_CONTAINS_RUNTIME = False
sys.modules["cmake_vars"] = built


class Version:
    """Numbers and words of a kernel's version, in order."""

    def __init__(self, text):
        words = re.findall(r"\d+|[a-z]+", text)
        self.words = [(0, int(w), "") if w.isdigit() else (1, 0, w) for w in words]

    def __lt__(self, other):
        return self.words < other.words

    def __gt__(self, other):
        return self.words > other.words


try:
    import looseversion
except ImportError:
    looseversion = types.ModuleType("looseversion")
    looseversion.LooseVersion = Version
    sys.modules["looseversion"] = looseversion

import runner

run_test = runner.Runner.run_test
runner.ATTACH_TIMEOUT *= slowness
runner.Runner.run_test = staticmethod(lambda test: run_test(test._replace(timeout=test.timeout * slowness)))
runpy.run_path(sys.argv[0], run_name="__main__")
