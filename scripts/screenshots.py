#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Take the screenshots docs/trace.png and docs/trace-dark.png of cohort trace --html.

usage: scripts/screenshots.py [COHORT]

Shows the dump of a stalled demo.  Needs Debian's packages chromium and chromium-driver.
COHORT is build/cohort by default.
"""

import glob
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../tests/system"))
from browser import Browser, is_there

DOCS = os.path.join(here, "../docs")
MOST_BYTES = 140 * 1024
# Script that returns the top of the timeline's section, and the bottom of the timeline or of its
# tool tip.
PLACES = """return [document.querySelector("#timeline-title").getBoundingClientRect().top,
    Math.max(...[".timeline", "#tip"].map(
        name => document.querySelector(name).getBoundingClientRect().bottom))]"""


def make_page(cohort, folder):
    environment = dict(os.environ, COHORT_PLATFORM="host", COHORT_DUMP_DIR=folder)
    subprocess.run([cohort, "demo", "--json"], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    merged = glob.glob(folder + "/fr_demo_g1_*_merged.json")
    subprocess.run([cohort, "trace", "--html", folder + "/page.html", *merged], check=True,
                   stdout=subprocess.DEVNULL)
    return folder + "/page.html"


def picture(browser, name, is_whole):
    """Take a picture of the page down to the timeline, or of the timeline alone."""
    path = os.path.join(DOCS, name)
    top, bottom = browser.run(PLACES)
    browser.picture(path, 0 if is_whole else top - 12, bottom + 3)
    size = os.path.getsize(path)
    if size > MOST_BYTES:
        sys.exit(f"docs/{name} has {size} bytes, the most is {MOST_BYTES}")


def main():
    if not is_there():
        sys.exit("install chromium and chromium-driver (Debian)")
    with tempfile.TemporaryDirectory() as folder:
        page = make_page(sys.argv[1] if len(sys.argv) > 1 else "build/cohort", folder)
        with Browser(980, 1000) as browser:
            browser.open(page)
            picture(browser, "trace.png", True)
            # Show the whole dump, with the wait of rank 1 selected.
            browser.run("document.getElementById('theme').click();"
                        "document.getElementById('rows').focus()")
            browser.keys("f", "ArrowUp", *"nnnnnnnnn")
            picture(browser, "trace-dark.png", False)


if __name__ == "__main__":
    main()
