#!/usr/bin/env python3
"""docs/compatibility.md keeps its word: each weakness of the original has a row, and each
test that a row names exists. Exit status 1 with a line for each that does not."""

import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "compatibility.md"
WEAKNESSES = [f"W{n}" for n in range(1, 38)]
ROW = re.compile(r"^\| ([WS]\d+) \|(.*)\|$", re.MULTILINE)
TEST_FILE = re.compile(r"`(test_\w+\.(?:c|py))`")
TEST_NAME = re.compile(r"`(\w+_\w+_\w+)`")
DEFAULT_FILE = "test_program.c"  # as the page says above its table


def functions(name):
    """The functions of the test files of that name; None where there is no such file."""
    files = list(TESTS.rglob(name))
    if not files:
        return None
    pattern = r"^\s*(?:static void|def) (?:test_)?(\w+)\("
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return set(re.findall(pattern, text, re.MULTILINE))


def complaints_of(number, cells):
    tests = cells.split("|")[-1]
    named_files = TEST_FILE.findall(tests)
    known = set()
    for name in [DEFAULT_FILE, *named_files]:
        found = functions(name)
        if found is None:
            yield f"{number} names {name}, which does not exist"
        known |= found or set()
    named = TEST_NAME.findall(TEST_FILE.sub("", tests))
    for name in named:
        if name not in known:
            yield f"{number} names the test {name}, which does not exist"
    if not named and not named_files:
        yield f"{number} has a row that names no test"


def main():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    complaints = [f"{number} has no row" for number in WEAKNESSES if number not in dict(rows)]
    for number, cells in rows:
        complaints += complaints_of(number, cells)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
