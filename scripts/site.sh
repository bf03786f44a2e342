#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Generate the documentation site: the Markdown pages, the manual and the API by header, as HTML
# with a search.
#
#	scripts/site.sh MANUAL OUT VERSION
#
# MANUAL is the folder with the pages of scripts/manual.py.  The first run installs Sphinx, MyST
# and Furo from PyPI, in the versions of scripts/site/requirements.txt, into a virtual environment
# beside OUT.  The script fails if Sphinx prints a warning.  If a tool is missing, it prints one
# line with the reason and exits with 77.

set -euo pipefail

man=$1 out=$2
export VERSION=$3
here=$(dirname "$0")
wanted=$here/site/requirements.txt
tools=$out-tools
pages=$out-pages

# missing WHAT - print the reason why there is no site, and exit
missing() {
	echo "make site: $1"
	exit 77
}

for tool in python3 mandoc git; do
	command -v "$tool" >/dev/null || missing "there is no $tool"
done
if ! cmp -s "$wanted" "$tools/requirements.txt"; then
	rm -rf "$tools"
	python3 -m venv "$tools" >/dev/null 2>&1 ||
		missing "python3 cannot make a virtual environment (Debian: python3-venv)"
	"$tools/bin/pip" install -q --disable-pip-version-check --retries 1 -r "$wanted" \
		>"$tools/log" 2>&1 ||
		missing "pip cannot install Sphinx: $(grep . "$tools/log" | tail -n 1)"
	cp "$wanted" "$tools/requirements.txt"
fi
"$here/site.py" "$man" "$pages"
rm -rf "$out"
"$tools/bin/python" -m sphinx -q -n -W --keep-going -c "$here/site" -d "$pages/.doctrees" \
	"$pages" "$out"
echo "$out/index.html"
echo '1 passed, 0 failed, 0 skipped'
