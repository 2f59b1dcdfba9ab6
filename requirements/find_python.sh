#!/bin/sh
# Prints the path of a Python for the project's environments.
#
#   find_python.sh           Lambda's Python if this machine has it, else python3, else any from 3.11 on
#   find_python.sh 3.11      that version, or nothing
#
# Looks on the search path and among the versions of pyenv, whose shims work only for the version
# that is selected. A Python that was built without a module that the project needs is passed over.

lambda=3.13

probe='
import bz2, ctypes, ensurepip, lzma, sqlite3, ssl, sys, sysconfig, venv, zlib
wanted = sys.argv[1]
found = "%d.%d" % sys.version_info[:2]
if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.version_info < (3, 11):
    sys.exit(1)
if wanted not in ("", found):
    sys.exit(1)
# Of a virtual environment, the Python that it was made from: make may be about to replace it.
print(getattr(sys, "_base_executable", sys.executable))
'

# find VERSION: a Python of that version.
find() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*"/bin/python$1"; do
        "$candidate" -I -c "$probe" "$1" 2>/dev/null && return
    done
    return 1
}

if [ $# -gt 0 ]; then
    find "$1"
    exit
fi
find "$lambda" || python3 -I -c "$probe" "" 2>/dev/null || find 3.12 || find 3.11 || find 3.14 \
    || echo python3
