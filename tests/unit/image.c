/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of function names and build IDs from valid and malicious ELF files, and
 * from files that are mapped into the process
 *
 * Most tests modify a small ELF file.
 */

#include "base/image.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watch/places.h"

TestSuite(image, .timeout = 60);

#define SYMBOLS 8

/* An ELF file with code at address 0x401000. Offset 0 is at 0x400000. */
struct file {
	ElfW(Ehdr) header;
	ElfW(Phdr) segments[2];
	struct {
		ElfW(Nhdr) header;
		char name[4];
		unsigned char id[4];
	} notes[2];
	ElfW(Shdr) sections[3];
	ElfW(Sym) symbols[SYMBOLS];
	char strings[128];
	char code[0x2000];
};

static const char strings[] = "\0_outer\0inner\0__alias\0alias\0_weak\0"
			      "train_worker.part.0\0memcpy@@GLIBC_2.14";

static uint32_t string(const char *name)
{
	const char *at = strings;

	while (strcmp(at, name) != 0) {
		at += strlen(at) + 1;
		cr_assert_lt(at, strings + sizeof(strings));
	}
	return (uint32_t)(at - strings);
}

static ElfW(Sym)
	symbol(const char *name, int binding, uint64_t start, uint64_t size)
{
	return (ElfW(Sym)){
		.st_name = string(name),
		.st_info = (unsigned char)ELF64_ST_INFO(binding, STT_FUNC),
		.st_shndx = 1,
		.st_value = start,
		.st_size = size,
	};
}

static void fill_head(struct file *f)
{
	f->header = (ElfW(Ehdr)){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
		             ELFDATA2LSB },
		.e_phoff = offsetof(struct file, segments),
		.e_phentsize = sizeof(ElfW(Phdr)),
		.e_phnum = 2,
		.e_shoff = offsetof(struct file, sections),
		.e_shentsize = sizeof(ElfW(Shdr)),
		.e_shnum = 3,
	};
	f->segments[0] = (ElfW(Phdr)){
		.p_type = PT_LOAD,
		.p_vaddr = 0x400000,
		.p_filesz = sizeof(*f),
	};
	f->segments[1] = (ElfW(Phdr)){
		.p_type = PT_NOTE,
		.p_offset = offsetof(struct file, notes),
		.p_filesz = sizeof(f->notes),
		.p_align = 4,
	};
	f->notes[0].header = (ElfW(Nhdr)){ 4, 4, NT_GNU_ABI_TAG };
	f->notes[1].header = (ElfW(Nhdr)){ 4, 4, NT_GNU_BUILD_ID };
	memcpy(f->notes[0].name, "GNU", 4);
	memcpy(f->notes[1].name, "GNU", 4);
	memcpy(f->notes[1].id, "\xfe\xed\x00\x0f", 4);
}

static void fill(struct file *f)
{
	memset(f, 0, sizeof(*f));
	fill_head(f);
	f->sections[1] = (ElfW(Shdr)){
		.sh_type = SHT_SYMTAB,
		.sh_offset = offsetof(struct file, symbols),
		.sh_size = sizeof(f->symbols),
		.sh_entsize = sizeof(ElfW(Sym)),
		.sh_link = 2,
	};
	f->sections[2] = (ElfW(Shdr)){
		.sh_type = SHT_STRTAB,
		.sh_offset = offsetof(struct file, strings),
		.sh_size = sizeof(f->strings),
	};
	memcpy(f->strings, strings, sizeof(strings));
	f->symbols[1] = symbol("_outer", STB_GLOBAL, 0x401000, 0x100);
	f->symbols[2] = symbol("inner", STB_LOCAL, 0x401010, 0x10);
	f->symbols[3] = symbol("__alias", STB_GLOBAL, 0x401200, 0x10);
	f->symbols[4] = symbol("alias", STB_WEAK, 0x401200, 0x10);
	f->symbols[5] = symbol("_weak", STB_WEAK, 0x401200, 0x10);
	f->symbols[6] = symbol("train_worker.part.0", STB_LOCAL, 0x401300, 8);
	f->symbols[7] = symbol("memcpy@@GLIBC_2.14", STB_GLOBAL, 0x401400, 8);
	f->symbols[7].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
}

/* Write the first @n bytes of @f to a file, and return its descriptor. */
static int written(const struct file *f, size_t n)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, f, n), (ssize_t)n);
	return fd;
}

#define FUNCTIONS 7

static const uint64_t addresses[FUNCTIONS] = {
	0x401000, 0x401011, 0x401020, 0x401100, 0x401204, 0x401307, 0x401400,
};

/* Read a whole file, as the library does. Return false if it is not an ELF
 * file. */
static bool read_file(const struct file *f, size_t size, char names[][64],
                      char id[2 * IMAGE_BUILD_ID + 1])
{
	struct image_function found[FUNCTIONS];
	int fd = written(f, size), i;
	uint64_t address;
	struct image image;
	bool is_elf;

	for (i = 0; i < FUNCTIONS; i++)
		found[i].address = addresses[i];
	is_elf = image_begin(&image, fd, 0);
	if (is_elf) {
		image_build_id(&image, id);
		image_address(&image, 0x1234, &address);
		image_find(&image, found, FUNCTIONS);
		for (i = 0; i < FUNCTIONS; i++)
			image_name(&image, &found[i], names[i], 64);
	}
	close(fd);
	return is_elf;
}

Test(image, elf_functions_are_found_by_address)
{
	static const char *const wanted[FUNCTIONS] = {
		"_outer", "inner", "_outer", "", "alias", "train_worker.part.0",
		"memcpy",
	};
	char names[FUNCTIONS][64], id[2 * IMAGE_BUILD_ID + 1];
	struct file f;
	int i;

	fill(&f);
	cr_assert(read_file(&f, sizeof(f), names, id));
	for (i = 0; i < FUNCTIONS; i++)
		cr_assert_str_eq(names[i], wanted[i], "%d: %s", i, names[i]);
	cr_assert_str_eq(id, "feed000f");
}

Test(image, stripped_elf_file_has_names_of_dynamic_symbols)
{
	char names[FUNCTIONS][64], id[2 * IMAGE_BUILD_ID + 1];
	struct file f;

	fill(&f);
	f.sections[1].sh_type = SHT_DYNSYM;
	cr_assert(read_file(&f, sizeof(f), names, id));
	cr_assert_str_eq(names[1], "inner");
}

Test(image, file_offset_becomes_an_address_in_its_elf_segment)
{
	uint64_t address = 0;
	struct file f;
	struct image image;
	int fd;

	fill(&f);
	f.segments[0].p_offset = 0x100;
	f.segments[0].p_filesz = 0x100;
	fd = written(&f, sizeof(f));
	cr_assert(image_begin(&image, fd, 0));
	cr_assert_not(image_address(&image, 0xff, &address));
	cr_assert_not(image_address(&image, 0x200, &address));
	cr_assert(image_address(&image, 0x1ff, &address));
	cr_assert_eq(address, 0x4000ff);
	close(fd);
}

static void is_not_elf(struct file *f)
{
	char names[FUNCTIONS][64], id[2 * IMAGE_BUILD_ID + 1];

	cr_assert_not(read_file(f, sizeof(*f), names, id));
	fill(f);
}

Test(image, files_that_are_not_64_bit_elf_are_refused)
{
	struct file f;

	fill(&f);
	f.header.e_ident[EI_MAG3] = 'G';
	is_not_elf(&f);
	f.header.e_ident[EI_CLASS] = ELFCLASS32;
	is_not_elf(&f);
	f.header.e_ident[EI_DATA] = ELFDATA2MSB;
	is_not_elf(&f);
	f.header.e_phentsize--;
	is_not_elf(&f);
	f.header.e_shentsize++;
	is_not_elf(&f);
}

Test(image, truncated_elf_file_is_read_as_far_as_possible)
{
	char names[FUNCTIONS][64], id[2 * IMAGE_BUILD_ID + 1];
	struct file f;
	size_t n;

	fill(&f);
	for (n = 0; n < offsetof(struct file, code); n++)
		cr_assert_eq(read_file(&f, n, names, id),
		             n >= sizeof(f.header));
	/* The file ends before the names of its symbols. */
	cr_assert(read_file(&f, offsetof(struct file, strings), names, id));
	cr_assert_str_eq(names[1], "");
	cr_assert_str_eq(id, "feed000f");
}

/* Numbers that make sums, products or conversions overflow */
static const uint64_t hostile[] = {
	0,
	1,
	7,
	0x7fff,
	0xffff,
	0x7fffffff,
	0xffffffff,
	INT64_MAX - 7,
	INT64_MAX,
	(uint64_t)INT64_MAX + 1,
	UINT64_MAX / sizeof(ElfW(Sym)) + 1,
	UINT64_MAX - 7,
	UINT64_MAX,
};

/* Write every number in @hostile over every field of the file, with 2, 4 and 8
 * bytes. */
Test(image, elf_reader_survives_extreme_numbers_in_any_field)
{
	const size_t n = sizeof(hostile) / sizeof(hostile[0]);
	char names[FUNCTIONS][64], id[2 * IMAGE_BUILD_ID + 1];
	struct file f;
	size_t at, size, i;

	for (size = 2; size <= 8; size *= 2)
		for (at = sizeof(f.header.e_ident);
		     at < offsetof(struct file, strings); at += size)
			for (i = 0; i < n; i++) {
				fill(&f);
				memcpy((char *)&f + at, &hostile[i], size);
				read_file(&f, sizeof(f), names, id);
			}
}

Test(image, elf_reader_survives_random_bytes)
{
	char names[FUNCTIONS][64], id[2 * IMAGE_BUILD_ID + 1];
	const size_t most = offsetof(struct file, code);
	struct file f;
	int i, k;

	srand(1);
	for (i = 0; i < 5000; i++) {
		fill(&f);
		for (k = 0; k < 20; k++)
			((char *)&f)[EI_NIDENT +
			             (size_t)rand() % (most - EI_NIDENT)] =
				(char)rand();
		read_file(&f, sizeof(f), names, id);
	}
}

Test(image, huge_elf_symbol_table_is_searched_up_to_a_bound)
{
	struct image_function found[FUNCTIONS];
	struct file f;
	struct image image;
	int fd, i;

	/* The symbol table has the symbols and then 2^40 bytes of zeros. */
	fill(&f);
	f.sections[1].sh_size = UINT64_MAX;
	fd = written(&f, sizeof(f));
	cr_assert_eq(ftruncate(fd, (off_t)1 << 40), 0);
	for (i = 0; i < FUNCTIONS; i++)
		found[i].address = addresses[i];
	cr_assert(image_begin(&image, fd, 0));
	image_find(&image, found, FUNCTIONS);
	cr_assert(found[1].is_found);
	close(fd);
}

Test(image, elf_symbol_name_is_cut_and_made_printable)
{
	struct image_function found = { .address = 0x401011 };
	struct file f;
	struct image image;
	char name[4];
	int fd;

	fill(&f);
	f.strings[string("inner") + 1] = '\033';
	fd = written(&f, sizeof(f));
	cr_assert(image_begin(&image, fd, 0));
	image_find(&image, &found, 1);
	cr_assert(image_name(&image, &found, name, sizeof(name)));
	cr_assert_str_eq(name, "i?n");
	close(fd);
}

/* ---- mapped files ----------------------------------------------------- */

/* A file that is mapped into the process */
struct mapped {
	char path[64];
	char *at;
};

static void write_to(const char *path, const struct file *f)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, f, sizeof(*f)), (ssize_t)sizeof(*f));
	close(fd);
}

static struct mapped map(const struct file *f)
{
	struct mapped m;
	int fd;

	snprintf(m.path, sizeof(m.path), "/tmp/cohort_elf.%d", getpid());
	unlink(m.path);
	write_to(m.path, f);
	fd = open(m.path, O_RDONLY | O_CLOEXEC);
	m.at = mmap(NULL, sizeof(*f), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
	            0);
	cr_assert_neq(m.at, MAP_FAILED);
	close(fd);
	return m;
}

static struct places places;

/* Return the code place of an address in inner(). */
static const struct code_place *place_of(const struct mapped *m)
{
	const uintptr_t address = (uintptr_t)m->at + 0x1011;

	places_clear(&places);
	places_add(&places, address);
	places_map(&places);
	places_name(&places);
	return places_find(&places, address);
}

static const char *name_of(const struct code_place *p)
{
	return p->name < 0 ? "" : places.names + p->name;
}

Test(places, address_in_a_mapped_file_has_path_build_id_and_function)
{
	const struct code_place *p;
	struct mapped m;
	struct file f;

	fill(&f);
	m = map(&f);
	p = place_of(&m);
	cr_assert_geq(p->module, 0);
	cr_assert_str_eq(places.modules[p->module].path, m.path);
	cr_assert_str_eq(places.modules[p->module].build_id, "feed000f");
	cr_assert_eq(p->offset, 0x401011);
	cr_assert_str_eq(name_of(p), "inner");
	cr_assert_eq(p->into, 1);
	unlink(m.path);
}

/* Check that the address in inner() has either no name or the correct one. Only
 * root can read a mapped file that was deleted. */
static void is_not_outer(const struct mapped *m, const char *why)
{
	const struct code_place *p = place_of(m);

	cr_assert_str_eq(places.modules[p->module].path, m->path);
	cr_assert_str_eq(places.modules[p->module].build_id, "feed000f");
	cr_assert_eq(p->offset, 0x401011);
	cr_assert(!*name_of(p) || strcmp(name_of(p), "inner") == 0, "%s: %s",
	          why, name_of(p));
}

Test(places, replaced_file_names_no_functions_of_another_build)
{
	struct mapped m;
	struct file f;

	fill(&f);
	m = map(&f);
	unlink(m.path);
	is_not_outer(&m, "deleted");
	f.notes[1].id[3]++;
	f.symbols[2] = f.symbols[1]; /* inner() is now called _outer() */
	write_to(m.path, &f);
	is_not_outer(&m, "replaced");
	unlink(m.path);
}

Test(places, mapped_file_that_was_truncated_causes_no_fault)
{
	const struct code_place *p;
	struct mapped m;
	struct file f;

	fill(&f);
	m = map(&f);
	cr_assert_eq(truncate(m.path, 100), 0);
	p = place_of(&m);
	cr_assert_str_eq(places.modules[p->module].path, m.path);
	cr_assert_str_eq(name_of(p), "");
	unlink(m.path);
}

Test(places, address_outside_all_mapped_files_has_no_module)
{
	const struct code_place *p;
	char *anonymous =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	places_clear(&places);
	places_add(&places, 1);
	places_add(&places, (uintptr_t)anonymous + 5);
	places_add(&places, UINTPTR_MAX);
	places_map(&places);
	places_name(&places);
	cr_assert_eq(places.n, 3);
	for (p = places.at; p < places.at + places.n; p++) {
		cr_assert_eq(p->module, -1);
		cr_assert_eq(p->name, -1);
	}
}

Test(places, vdso_functions_are_named)
{
	const uintptr_t vdso = (uintptr_t)getauxval(AT_SYSINFO_EHDR);
	const struct code_place *p;
	unsigned i;

	if (!vdso)
		cr_skip_test("the kernel maps no vdso");
	places_clear(&places);
	for (i = 0; i < PLACES; i++)
		places_add(&places, vdso + 4 * i);
	places_map(&places);
	places_name(&places);
	for (p = places.at; p < places.at + places.n; p++)
		if (strstr(name_of(p), "clock_gettime"))
			return;
	cr_assert_fail("the vdso has no function clock_gettime()");
}
