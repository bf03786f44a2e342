/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_IMAGE_H
#define BASE_IMAGE_H

/*
 * Names of functions and build IDs, from files of this machine's ELF format
 *
 * A file is not trusted: it may be truncated, damaged or hostile, and may
 * change while it is read.  It is read with pread(), which cannot raise SIGBUS,
 * and each offset and count is checked.  No function takes memory or a lock.
 */

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most bytes of a build ID. */
#define IMAGE_BUILD_ID 32

/* A file, or an image in memory. */
struct image {
	int fd;

	/* 0 for a file; for an image, its address, where @fd is
	 * /proc/self/mem. */
	uint64_t base;
	ElfW(Ehdr) header;
};

/* A function, by an address in it. */
struct image_function {
	uint64_t address; /* as in the symbol table */

	/* Found by image_find(). */
	bool is_found;
	uint64_t start;
	uint64_t name_at; /* offset of the name in the file */
	int rank; /* among symbols with this start: the lowest is best */
};

/* Read the header of the ELF file at @base in @fd.  False if there is no such
 * file. */
bool image_begin(struct image *image, int fd, uint64_t base);

/* Convert an offset in the file to the address that its symbol table and
 * addr2line use.  False if nothing is loaded from there. */
bool image_address(const struct image *image, uint64_t offset,
                   uint64_t *address);

/* Write the build ID in hexadecimal, or "" if there is none. */
void image_build_id(const struct image *image, char id[2 * IMAGE_BUILD_ID + 1]);

/* Find the functions at @n addresses, which ascend, in one pass over the symbol
 * table: the static one, or the dynamic one of a stripped file. */
void image_find(const struct image *image, struct image_function *functions,
                size_t n);

/* Write the name of a function that was found, without a symbol version; a name
 * of more than @size - 1 bytes is cut.  False if it has none. */
bool image_name(const struct image *image,
                const struct image_function *function, char *name, size_t size);

#endif
