# SPDX-License-Identifier: Apache-2.0
"""Configuration of Sphinx for the documentation site (scripts/site.sh)."""

# Sphinx requires these names in lower case.
# pylint: disable=invalid-name

import os

project = "Cohort"
copyright = "the Cohort authors"  # pylint: disable=redefined-builtin
version = release = os.environ["VERSION"]

extensions = ["myst_parser"]
root_doc = "index"
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6

html_theme = "furo"
html_title = f"Cohort {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Do not show summaries: the page would fetch them, which a browser forbids for local files.
html_show_search_summary = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
