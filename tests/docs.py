#!/usr/bin/python3
"""Every file and folder of this tree that a page, a comment or a message names is there."""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Paths from the top of the tree; a folder's name ends with a slash or is followed by more.
NAMED = re.compile(r"(?<![\w./-])((?:docs|user|bpf|include|tests|scripts|packaging|vmlinux|\.ci)/[\w./-]*\w/?)")
PAGES = (".md", ".8", ".c", ".h", ".py", ".mk", ".sh", "")


# Not in the source tree, and not missing either.
MADE = ("tests/cache", "build/")


def listed_files():
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, capture_output=True, text=True,
                          check=True)
    return [name for name in done.stdout.splitlines() if os.path.exists(os.path.join(TOP, name))]


def main():
    names, missing = listed_files(), []
    for name in names:
        if os.path.splitext(name)[1] not in PAGES or name.startswith("vmlinux/"):
            continue
        with open(os.path.join(TOP, name), encoding="utf-8", errors="replace") as source:
            for number, line in enumerate(source, 1):
                for path in () if line.startswith("#include") else NAMED.findall(line):
                    if re.search(r"\b[A-Z]{3,}\b", path) or path.startswith(MADE):
                        continue  # a place holder, or made when it is needed
                    stem = os.path.join(TOP, path)
                    if not any(os.path.exists(stem + ending) for ending in ("", ".c", ".h", ".py")):
                        missing.append(f"{name}:{number}: there is no {path}")
    sys.stderr.write("".join(line + "\n" for line in missing))
    print(f"{len(names)} files: {len(missing)} names of files that are not there")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
