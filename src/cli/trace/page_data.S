/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The parts of the page of cohort trace --html as strings of the binary, for html.c
 */

	.section .rodata

	.macro string name, files:vararg
	.globl \name
	.hidden \name
	.type \name, %object
\name:
	.irp file, \files
	.incbin "page/\file"
	.endr
	.byte 0
	.size \name, . - \name
	.endm

	string page_html, page.html
	string page_css, page.css
	string page_js, data.js, tables.js, timeline.js, page.js

	/* No executable stack. */
	.section .note.GNU-stack, "", %progbits
