"""Prints the name module.Class.test of each test in the *_test.py files of the
subfolders.

It parses the source instead of importing it, since CMake runs it before
anything is built.
"""
import ast
import glob
import os

HERE = os.path.dirname(os.path.abspath(__file__))

for path in sorted(glob.glob(os.path.join(HERE, "*", "*_test.py")),
                   key=os.path.basename):
    with open(path, encoding="utf-8") as f:
        module = ast.parse(f.read(), path)
    for thing in module.body:
        if not isinstance(thing, ast.ClassDef):
            continue
        for part in thing.body:
            if isinstance(part, ast.FunctionDef) and \
                    part.name.startswith("test_"):
                print(f"{os.path.basename(path)[:-3]}.{thing.name}."
                      f"{part.name}")
