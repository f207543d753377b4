"""Runs the recipe of fixtures in a folder, with `--large`: {"path": folder, "from": the recipe}."""

import os
import runpy
import sys

from protocol import serve


def write(job):
    os.chdir(job["path"])
    sys.argv = [job["from"], "--large"]
    runpy.run_path(job["from"], run_name="__main__")
    return {"done": True}


serve(write)
