/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of digits as bytes of the binary, read by digits.c
 */

	.section .rodata
	.globl digits_csv
	.hidden digits_csv
	.type digits_csv, %object
	.globl digits_csv_end
	.hidden digits_csv_end
	.type digits_csv_end, %object
digits_csv:
	.incbin "data/digits.csv"
digits_csv_end:
	.size digits_csv, digits_csv_end - digits_csv
	.size digits_csv_end, 0

	/* No executable stack. */
	.section .note.GNU-stack, "", %progbits
