/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Embeds files as strings: the page of cohort trace --html, for html.c, and the script of --pickle,
 * for trace.c
 */

	.section .rodata

	.macro string name, files:vararg
	.globl \name
	.hidden \name
	.type \name, %object
\name:
	.irp file, \files
	.incbin "\file"
	.endr
	.byte 0
	.size \name, . - \name
	.endm

	string page_html, page/page.html
	string page_css, page/page.css
	string page_js, page/data.js, page/tables.js, page/timeline.js, page/page.js
	string fr2pickle_py, fr2pickle.py

	/* No executable stack. */
	.section .note.GNU-stack, "", %progbits
