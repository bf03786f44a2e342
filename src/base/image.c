/* SPDX-License-Identifier: Apache-2.0 */

#include "base/image.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"

/* Limits on the program headers, symbols and bytes of notes that are read.  The
 * largest programs have about 12 program headers, a million symbols and a few
 * hundred bytes of notes. */
#define SEGMENTS_MOST 128
#define SYMBOLS_MOST (UINT64_C(1) << 22)
#define NOTES_MOST 4096

/* Number of table entries that are read at a time. */
#define BLOCK 256

#if UINTPTR_MAX == UINT64_MAX
#define CLASS ELFCLASS64
#else
#define CLASS ELFCLASS32
#endif

/* <link.h> has no ElfW() for ELF64_ST_TYPE() and ELF64_ST_BIND(). */
#define TYPE(info) ((info)&0xf)
#define BINDING(info) ((info) >> 4)

/* Read up to @n bytes.  Return how many were read: 0 at the end of the file or
 * on an error. */
static size_t read_some(const struct image *e, uint64_t offset, void *to,
                        size_t n)
{
	ssize_t got;

	if (offset > (uint64_t)INT64_MAX - e->base)
		return 0;
	got = pread(e->fd, to, n, (off_t)(e->base + offset));
	return got > 0 ? (size_t)got : 0;
}

static bool read_all(const struct image *e, uint64_t offset, void *to, size_t n)
{
	return read_some(e, offset, to, n) == n;
}

/* Read entries of @size bytes from a table of @n entries, starting at entry
 * @i.  Return how many were read, at most BLOCK. */
static size_t read_entries(const struct image *e, uint64_t table, uint64_t n,
                           uint64_t i, void *to, size_t size)
{
	uint64_t count = MIN(n - i, BLOCK);

	if (table > INT64_MAX)
		return 0;
	return read_some(e, table + i * size, to, (size_t)count * size) / size;
}

bool image_begin(struct image *e, int fd, uint64_t base)
{
	const int one = 1;
	const int data = *(const char *)&one ? ELFDATA2LSB : ELFDATA2MSB;
	const ElfW(Ehdr) *h = &e->header;

	*e = (struct image){ .fd = fd, .base = base };
	return base <= INT64_MAX &&
	       read_all(e, 0, &e->header, sizeof(e->header)) &&
	       memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
	       h->e_ident[EI_CLASS] == CLASS && h->e_ident[EI_DATA] == data &&
	       (!h->e_phnum || h->e_phentsize == sizeof(ElfW(Phdr))) &&
	       (!h->e_shnum || h->e_shentsize == sizeof(ElfW(Shdr)));
}

static bool read_segment(const struct image *e, int i, ElfW(Phdr) * segment)
{
	return i < e->header.e_phnum && i < SEGMENTS_MOST &&
	       e->header.e_phoff <= INT64_MAX &&
	       read_all(e, e->header.e_phoff + (size_t)i * sizeof(*segment),
	                segment, sizeof(*segment));
}

bool image_address(const struct image *e, uint64_t offset, uint64_t *address)
{
	ElfW(Phdr) s;
	int i;

	for (i = 0; read_segment(e, i, &s); i++) {
		if (s.p_type != PT_LOAD || offset < s.p_offset ||
		    offset - s.p_offset >= s.p_filesz)
			continue;
		*address = s.p_vaddr + (offset - s.p_offset);
		return true;
	}
	return false;
}

static void add_hex(char *to, const unsigned char *from, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (; n; n--, from++) {
		*to++ = digits[*from >> 4];
		*to++ = digits[*from & 0xf];
	}
	*to = '\0';
}

static bool find_build_id(const unsigned char *at, uint64_t n, uint64_t align,
                          char *id)
{
	uint64_t name, all; /* end of the name, and of the note */
	ElfW(Nhdr) h;

	for (; n >= sizeof(h); at += all, n -= all) {
		memcpy(&h, at, sizeof(h));
		name = ROUND_UP(sizeof(h) + (uint64_t)h.n_namesz, align);
		if (name > n || h.n_descsz > n - name)
			return false;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 &&
		    memcmp(at + sizeof(h), "GNU", 4) == 0 &&
		    h.n_descsz <= IMAGE_BUILD_ID) {
			add_hex(id, at + name, h.n_descsz);
			return true;
		}
		all = ROUND_UP(name + h.n_descsz, align);
		if (all > n)
			return false;
	}
	return false;
}

void image_build_id(const struct image *e, char id[2 * IMAGE_BUILD_ID + 1])
{
	_Alignas(8) unsigned char notes[NOTES_MOST];
	ElfW(Phdr) s;
	size_t n;
	int i;

	id[0] = '\0';
	for (i = 0; read_segment(e, i, &s); i++) {
		if (s.p_type != PT_NOTE)
			continue;
		n = s.p_filesz < NOTES_MOST ? (size_t)s.p_filesz : NOTES_MOST;
		n = read_some(e, s.p_offset, notes, n);
		if (find_build_id(notes, n, s.p_align == 8 ? 8 : 4, id))
			return;
	}
}

struct table {
	uint64_t symbols, n;
	uint64_t strings, strings_size;
};

static bool find_section(const struct image *e, unsigned type, ElfW(Shdr) * out)
{
	ElfW(Shdr) sections[BLOCK];
	uint64_t i, k, n = e->header.e_shnum, got;

	for (i = 0; i < n; i += got) {
		got = read_entries(e, e->header.e_shoff, n, i, sections,
		                   sizeof(*sections));
		if (!got)
			return false;
		for (k = 0; k < got; k++)
			if (sections[k].sh_type == type) {
				*out = sections[k];
				return true;
			}
	}
	return false;
}

static bool find_table(const struct image *e, struct table *t)
{
	ElfW(Shdr) symbols, strings;

	if ((!find_section(e, SHT_SYMTAB, &symbols) &&
	     !find_section(e, SHT_DYNSYM, &symbols)) ||
	    symbols.sh_entsize != sizeof(ElfW(Sym)) ||
	    symbols.sh_link >= e->header.e_shnum ||
	    read_entries(e, e->header.e_shoff, symbols.sh_link + 1,
	                 symbols.sh_link, &strings, sizeof(strings)) != 1 ||
	    strings.sh_type != SHT_STRTAB)
		return false;
	t->symbols = symbols.sh_offset;
	t->n = symbols.sh_size / sizeof(ElfW(Sym));
	t->n = MIN(t->n, SYMBOLS_MOST);
	t->strings = strings.sh_offset;
	t->strings_size = strings.sh_size;
	return t->strings <= INT64_MAX && t->strings_size <= INT64_MAX;
}

static bool is_function(const ElfW(Sym) * s)
{
	const int type = TYPE(s->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) &&
	       s->st_shndx != SHN_UNDEF && s->st_size;
}

/* Return a rank for a symbol's name; the lowest is best.  A name with fewer
 * leading underscores is better.  On a tie, a global symbol is better than a
 * weak one, and a weak one better than a local one. */
static int rank_of(const struct image *e, const ElfW(Sym) * s, uint64_t name_at)
{
	const int binding = BINDING(s->st_info);
	char name[2] = "";

	read_some(e, name_at, name, sizeof(name));
	return 3 * ((name[0] == '_') + (name[0] == '_' && name[1] == '_')) +
	       (binding == STB_GLOBAL ? 0
	        : binding == STB_WEAK ? 1
	                              : 2);
}

/* Return the index of the first function at or after @address. */
static size_t first_from(const struct image_function *f, size_t n,
                         uint64_t address)
{
	size_t low = 0, middle;

	while (low < n) {
		middle = low + (n - low) / 2;
		if (f[middle].address < address)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

/* Assign a symbol to all functions whose addresses it spans.  If symbols nest,
 * the innermost wins. */
static void assign_symbol(const struct image *e, const struct table *t,
                          const ElfW(Sym) * s, struct image_function *f,
                          size_t n)
{
	size_t i = first_from(f, n, s->st_value);
	uint64_t name_at = t->strings + s->st_name;
	int rank = -1;

	for (; i < n && f[i].address - s->st_value < s->st_size; i++) {
		if (f[i].is_found && f[i].start > s->st_value)
			continue;
		if (rank < 0)
			rank = rank_of(e, s, name_at);
		if (f[i].is_found && f[i].start == s->st_value &&
		    f[i].rank <= rank)
			continue;
		f[i].is_found = true;
		f[i].start = s->st_value;
		f[i].name_at = name_at;
		f[i].rank = rank;
	}
}

void image_find(const struct image *e, struct image_function *f, size_t n)
{
	ElfW(Sym) symbols[BLOCK];
	struct table t;
	uint64_t i, got;
	size_t k;

	for (k = 0; k < n; k++)
		f[k].is_found = false;
	if (!n || !find_table(e, &t))
		return;
	for (i = 0; i < t.n; i += got) {
		got = read_entries(e, t.symbols, t.n, i, symbols,
		                   sizeof(*symbols));
		if (!got)
			return;
		for (k = 0; k < got; k++)
			if (is_function(&symbols[k]) &&
			    symbols[k].st_name < t.strings_size)
				assign_symbol(e, &t, &symbols[k], f, n);
	}
}

bool image_name(const struct image *e, const struct image_function *f,
                char *name, size_t size)
{
	size_t n, i;

	*name = '\0';
	if (!f->is_found)
		return false;
	n = read_some(e, f->name_at, name, size - 1);
	name[n] = '\0';
	name[strcspn(name, "@")] = '\0';
	/* The name goes into messages, so it must be plain text. */
	for (i = 0; name[i]; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 127)
			name[i] = '?';
	return *name != '\0';
}
