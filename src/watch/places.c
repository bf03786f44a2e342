/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/places.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Maximum length of a line of /proc/self/maps; about 80 bytes precede the
 * path. */
#define LINE (PLACE_PATH + 128)

/* The kernel adds this to the path of a file that was removed or replaced. */
#define DELETED " (deleted)"

/* Number of bytes at the start of a file that distinguish builds, because they
 * contain the build ID. */
#define START 4096

/* ---- the list --------------------------------------------------------- */

void places_clear(struct places *p)
{
	p->n = p->n_modules = 0;
	p->names_size = 0;
}

/* Return the index of the first place at @address or after it. */
static int first_from(const struct places *p, uintptr_t address)
{
	int low = 0, high = p->n, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (p->at[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct code_place *places_find(const struct places *p, uintptr_t address)
{
	int i = first_from(p, address);

	return i < p->n && p->at[i].address == address ? &p->at[i] : NULL;
}

void places_add(struct places *p, uintptr_t address)
{
	int i = first_from(p, address);

	if (p->n == PLACES || (i < p->n && p->at[i].address == address))
		return;
	memmove(&p->at[i + 1], &p->at[i], (size_t)(p->n - i) * sizeof(*p->at));
	p->at[i] = (struct code_place){ .address = address,
		                        .module = -1,
		                        .name = -1 };
	p->n++;
}

/* ---- mappings --------------------------------------------------------- */

/* A line of /proc/self/maps. */
struct mapping {
	uint64_t start, end, offset;
	char path[PLACE_PATH]; /* "" if there is none, or if too long */
};

static bool parse(const char *line, struct mapping *m)
{
	int at = 0;
	size_t n;

	m->path[0] = '\0';
	if (sscanf(line, "%lx-%lx %*s %lx %*s %*u %n", &m->start, &m->end,
	           &m->offset, &at) < 3)
		return false;
	n = strlen(line + at);
	if (at && n < sizeof(m->path))
		memcpy(m->path, line + at, n + 1);
	return true;
}

static int add_module(struct places *p, const struct mapping *image)
{
	struct place_module *m = &p->modules[p->n_modules];
	const size_t n = strlen(image->path), end = strlen(DELETED);

	if (p->n_modules == PLACE_MODULES)
		return -1;
	memcpy(m->path, image->path, n + 1);
	if (n > end && strcmp(m->path + n - end, DELETED) == 0)
		m->path[n - end] = '\0';
	m->build_id[0] = '\0';
	m->image = image->start;
	m->image_end = image->end;
	return p->n_modules++;
}

/* Set the module of the places in mapping @m.  @image is the first mapping of
 * that module. */
static void take_mapping(struct places *p, const struct mapping *m,
                         const struct mapping *image)
{
	int i = first_from(p, (uintptr_t)m->start), module;

	if (i == p->n || p->at[i].address >= m->end)
		return;
	if (p->n_modules && p->modules[p->n_modules - 1].image == image->start)
		module = p->n_modules - 1;
	else
		module = add_module(p, image);
	for (; i < p->n && p->at[i].address < m->end; i++) {
		p->at[i].module = module;
		p->at[i].offset = p->at[i].address - m->start + m->offset;
	}
}

/* Read the mappings, which are in ascending order. */
static void read_mappings(struct places *p, int fd)
{
	struct mapping m, image = { .start = 0 };
	char text[4 * LINE], *line, *end;
	size_t used = 0;
	ssize_t n;

	while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
		used += (size_t)n;
		text[used] = '\0';
		for (line = text; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			if (!parse(line, &m) || !*m.path)
				continue;
			/* The first mapping of an image is followed by its
			 * other mappings. */
			if (!m.offset || strcmp(m.path, image.path) != 0)
				image = m;
			take_mapping(p, &m, &image);
		}
		used -= (size_t)(line - text);
		memmove(text, line, used);
		if (used == sizeof(text) - 1)
			used = 0; /* drop a line that is too long */
	}
}

/* Read at most START bytes.  Return the number of bytes read. */
static size_t read_start(int fd, uint64_t at, char start[START])
{
	ssize_t n = pread(fd, start, START, (off_t)at);

	return n > 0 ? (size_t)n : 0;
}

/* Read the build IDs of images, and turn file offsets into addresses. */
static void read_images(struct places *p, int mem)
{
	struct image image;
	int m, i;

	for (m = 0; m < p->n_modules; m++) {
		if (!image_begin(&image, mem, p->modules[m].image))
			continue;
		image_build_id(&image, p->modules[m].build_id);
		for (i = 0; i < p->n; i++)
			if (p->at[i].module == m)
				image_address(&image, p->at[i].offset,
				              &p->at[i].offset);
	}
}

static int open_file(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void places_map(struct places *p)
{
	int maps = open_file("/proc/self/maps"), mem;

	if (maps < 0)
		return;
	read_mappings(p, maps);
	close(maps);
	mem = open_file("/proc/self/mem");
	if (mem < 0)
		return;
	read_images(p, mem);
	close(mem);
}

/* ---- names ------------------------------------------------------------ */

/* Open a file if its first @n bytes equal @start; otherwise return -1. */
static int open_same(const char *path, const char *start, size_t n)
{
	int fd = open_file(path);
	char of_file[START];

	if (fd < 0)
		return -1;
	if (n && read_start(fd, 0, of_file) >= n &&
	    memcmp(of_file, start, n) == 0)
		return fd;
	close(fd);
	return -1;
}

int places_open(const struct place_module *m)
{
	int mem = open_file("/proc/self/mem"), fd;
	char start[START], path[64];
	size_t n;

	/* An image of the kernel is not a file and is read from memory. */
	if (mem < 0 || *m->path != '/')
		return mem;
	n = m->image_end - m->image < START ? (size_t)(m->image_end - m->image)
	                                    : START;
	if (read_start(mem, m->image, start) < n)
		n = 0;
	close(mem);
	fd = open_same(m->path, start, n);
	if (fd < 0) {
		/* The file was removed or replaced.  Only root may open it
		 * under this name. */
		snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx",
		         m->image, m->image_end);
		fd = open_same(path, start, n);
	}
	return fd < 0 ? open_same("/proc/self/exe", start, n) : fd;
}

static void take_name(struct places *p, struct code_place *place,
                      const struct image *image, const struct image_function *f)
{
	const size_t room = PLACE_NAMES - p->names_size;

	if (room < PLACE_NAME ||
	    !image_name(image, f, p->names + p->names_size, PLACE_NAME))
		return;
	place->name = (int)p->names_size;
	place->into = (unsigned)(place->offset - f->start);
	p->names_size += strlen(p->names + p->names_size) + 1;
}

/* Name @n places starting at index @first.  All of them are in one module. */
static void name_module(struct places *p, int first, int n)
{
	const struct place_module *m = &p->modules[p->at[first].module];
	struct image image;
	int fd = places_open(m), i;

	if (fd < 0)
		return;
	for (i = first; i < first + n; i++)
		p->functions[i].address = p->at[i].offset;
	if (image_begin(&image, fd, *m->path == '/' ? 0 : m->image)) {
		image_find(&image, p->functions + first, (size_t)n);
		for (i = first; i < first + n; i++)
			take_name(p, &p->at[i], &image, &p->functions[i]);
	}
	close(fd);
}

void places_name(struct places *p)
{
	int i, n;

	for (i = 0; i < p->n; i += n) {
		for (n = 1;
		     i + n < p->n && p->at[i + n].module == p->at[i].module;
		     n++)
			;
		if (p->at[i].module >= 0)
			name_module(p, i, n);
	}
}
