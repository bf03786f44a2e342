/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of digits as bytes of the binary, which demo.c reads
 */

	.section .rodata
	.globl digits_csv
	.hidden digits_csv
	.type digits_csv, %object
digits_csv:
	.incbin "data/digits.csv"
	.size digits_csv, . - digits_csv

	/* No executable stack. */
	.section .note.GNU-stack, "", %progbits
