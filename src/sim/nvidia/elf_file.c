/* SPDX-License-Identifier: Apache-2.0 */

/* Checks that a file is a complete library (see loader.h) */

#include "sim/nvidia/loader.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file, and the buffer for the reason why it is bad. */
struct file {
	const char *path;
	int fd;
	uint64_t bytes;
	char *why;
	size_t why_bytes;
};

__attribute__((format(printf, 2, 3))) static bool fail(const struct file *f,
                                                       const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(f->why, f->why_bytes, format, arguments);
	va_end(arguments);
	return false;
}

/* ---- checking that all parts exist ------------------------------------ */

/* Return true if @bytes at @offset are in the file; otherwise, report that
 * @what is truncated. */
static bool is_in_file(const struct file *f, const char *what, uint64_t offset,
                       uint64_t bytes)
{
	if (offset <= f->bytes && bytes <= f->bytes - offset)
		return true;
	return fail(f,
	            "%s is cut short: it has %llu bytes, and %s would end at "
	            "byte %llu",
	            f->path, (unsigned long long)f->bytes, what,
	            (unsigned long long)(offset + bytes));
}

static bool read_at(const struct file *f, void *out, size_t bytes,
                    uint64_t offset)
{
	const ssize_t n = pread(f->fd, out, bytes, (off_t)offset);

	return n == (ssize_t)bytes ||
	       fail(f, "%s: %s", f->path,
	            n < 0 ? strerror(errno)
	                  : "the file changed while it was read");
}

static bool has_segments(const struct file *f, const Elf64_Ehdr *head)
{
	char what[64];
	Elf64_Phdr p;
	unsigned int i;

	if (!is_in_file(f, "the table of its segments", head->e_phoff,
	                (uint64_t)head->e_phnum * sizeof(p)))
		return false;
	for (i = 0; i < head->e_phnum; i++) {
		if (!read_at(f, &p, sizeof(p), head->e_phoff + i * sizeof(p)))
			return false;
		snprintf(what, sizeof(what), "its segment %u", i);
		if (p.p_type == PT_LOAD &&
		    !is_in_file(f, what, p.p_offset, p.p_filesz))
			return false;
	}
	return true;
}

static bool has_sections(const struct file *f, const Elf64_Ehdr *head)
{
	char what[64];
	Elf64_Shdr s;
	unsigned int i;

	if (!is_in_file(f, "the table of its sections", head->e_shoff,
	                (uint64_t)head->e_shnum * sizeof(s)))
		return false;
	for (i = 0; i < head->e_shnum; i++) {
		if (!read_at(f, &s, sizeof(s), head->e_shoff + i * sizeof(s)))
			return false;
		snprintf(what, sizeof(what), "its section %u", i);
		if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL &&
		    !is_in_file(f, what, s.sh_offset, s.sh_size))
			return false;
	}
	return true;
}

/* ---- checking the kind of file ---------------------------------------- */

static bool is_library(const struct file *f, const Elf64_Ehdr *head)
{
	if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
		return fail(f, "%s is not a library: it has no ELF header",
		            f->path);
	if (head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_machine != EM_X86_64)
		return fail(f, "%s is not for x86-64", f->path);
	if (head->e_type != ET_DYN || head->e_phentsize != sizeof(Elf64_Phdr) ||
	    (head->e_shnum && head->e_shentsize != sizeof(Elf64_Shdr)))
		return fail(f, "%s is an ELF file, but not a shared library",
		            f->path);
	return true;
}

static bool check(struct file *f)
{
	struct stat status;
	Elf64_Ehdr head;

	if (fstat(f->fd, &status) != 0)
		return fail(f, "%s: %s", f->path, strerror(errno));
	f->bytes = (uint64_t)status.st_size;
	return is_in_file(f, "its header", 0, sizeof(head)) &&
	       read_at(f, &head, sizeof(head), 0) && is_library(f, &head) &&
	       has_segments(f, &head) && has_sections(f, &head);
}

bool elf_file_is_whole(const char *path, char *why, size_t why_bytes)
{
	struct file f = { .path = path, .why = why, .why_bytes = why_bytes };
	struct stat status;
	bool ok;

	/* Check the type before opening, because opening a pipe blocks until
	 * the pipe has a writer. */
	if (stat(path, &status) != 0)
		return fail(&f, "%s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return fail(&f, "%s is not a regular file", path);
	f.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (f.fd < 0)
		return fail(&f, "%s: %s", path, strerror(errno));
	ok = check(&f);
	close(f.fd);
	return ok;
}
