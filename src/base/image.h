/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_IMAGE_H
#define BASE_IMAGE_H

/*
 * Read function names and build IDs from ELF files of this machine's format
 *
 * A file is untrusted: it may be truncated, damaged or malicious, and may
 * change while it is read.  It is read with pread(), which cannot raise SIGBUS,
 * and every offset and count is checked.  No function here allocates memory or
 * takes a lock.
 */

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum size in bytes of a supported build ID. */
#define IMAGE_BUILD_ID 32

/* An ELF file, or its image in memory. */
struct image {
	int fd;

	/* Address of an image in memory, which is read from /proc/self/mem
	 * (@fd), or 0 for a file. */
	uint64_t base;
	ElfW(Ehdr) header;
};

/* A function to find, given an address in it. */
struct image_function {
	uint64_t address; /* address as in the symbol table */

	/* Set by image_find(). */
	bool is_found;
	uint64_t start;
	uint64_t name_at; /* offset of the name in the file */
	/* Preference among symbols with the same start; the lowest is best. */
	int rank;
};

/* Read the header of the ELF file at @base in @fd.  Return false if there is no
 * ELF file of this machine's format. */
bool image_begin(struct image *image, int fd, uint64_t base);

/* Convert an offset in the file to the address that its symbol table and
 * addr2line use.  Return false if nothing is loaded from that offset. */
bool image_address(const struct image *image, uint64_t offset,
                   uint64_t *address);

/* Store the build ID in hexadecimal, or "" if there is none. */
void image_build_id(const struct image *image, char id[2 * IMAGE_BUILD_ID + 1]);

/* Find the functions at @n addresses, which are in ascending order, in one pass
 * over the symbol table.  If the file is stripped, this is the dynamic symbol
 * table. */
void image_find(const struct image *image, struct image_function *functions,
                size_t n);

/* Store the name of a function that was found, without a symbol version, cut to
 * @size - 1 bytes.  Return false if the function has no name. */
bool image_name(const struct image *image,
                const struct image_function *function, char *name, size_t size);

#endif
