/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/common/symbols.h"

#ifdef HAVE_LIBDW

#include <elfutils/libdwfl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "watch/symbolizer.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; NULL if it has not begun or could not. */
static Dwfl *session;

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

/* Read the list of loaded files, which may have changed since the last time. */
static bool report_locked(void)
{
	if (!session)
		session = dwfl_begin(&callbacks);
	if (!session)
		return false;
	dwfl_report_begin(session);
	return dwfl_linux_proc_report(session, getpid()) == 0 &&
	       dwfl_report_end(session, NULL, NULL) == 0;
}

/* Add " (file.c:12)", or "+0x2a" if the line is not known. */
static void add_line(struct text *t, Dwfl_Module *module, Dwarf_Addr address,
                     uint64_t into)
{
	Dwfl_Line *line = dwfl_module_getsrc(module, address);
	const char *file = NULL, *slash;
	int number = 0;

	if (line)
		file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	slash = file ? strrchr(file, '/') : NULL;
	if (file)
		text_add(t, " (%s:%d)", slash ? slash + 1 : file, number);
	else
		text_add(t, "+0x%llx", (unsigned long long)into);
}

static bool add_function(struct text *t, Dwfl_Module *module,
                         Dwarf_Addr address)
{
	const char *name;
	GElf_Off into;
	GElf_Sym symbol;

	name = dwfl_module_addrinfo(module, address, &into, &symbol, NULL, NULL,
	                            NULL);
	if (!name)
		return false;
	text_add(t, "%s", name);
	add_line(t, module, address, into);
	return true;
}

static bool add_locked(struct text *t, uintptr_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(session, address);

	if (!module && report_locked())
		module = dwfl_addrmodule(session, address);
	return module && add_function(t, module, address);
}

static bool add(struct text *t, uintptr_t address)
{
	bool is_known;

	/* Held for another verdict, which may take long: do without a name. */
	if (pthread_mutex_trylock(&lock))
		return false;
	is_known = session && add_locked(t, address);
	pthread_mutex_unlock(&lock);
	return is_known;
}

/* The first lookup in a file takes long: do one in this file and one in
 * libc. */
static void *prepare(void *unused)
{
	char text[100];

	(void)unused;
	pthread_mutex_lock(&lock);
	if (report_locked()) {
		add_locked(&(struct text){ text, sizeof(text) },
		           (uintptr_t)prepare);
		add_locked(&(struct text){ text, sizeof(text) },
		           (uintptr_t)memcpy);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

void symbols_use(void)
{
	pthread_t thread;

	/* A verdict must not wait for a server. */
	unsetenv("DEBUGINFOD_URLS");
	if (thread_start(&thread, prepare, NULL, "cohort/symbols"))
		return;
	pthread_detach(thread);
	symbol_more = add;
}

bool symbols_find(const char *path, uint64_t address, struct text *t)
{
	static const Dwfl_Callbacks offline = {
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	static char last[PLACE_PATH];
	static Dwfl *files; /* has the file @last */
	static Dwfl_Module *module;
	GElf_Addr bias;

	if (!files || strcmp(last, path) != 0) {
		unsetenv("DEBUGINFOD_URLS"); /* no server is asked */
		dwfl_end(files);
		text_copy(last, sizeof(last), path);
		files = dwfl_begin(&offline);
		module = files ? dwfl_report_offline(files, path, path, -1)
		               : NULL;
		if (files)
			dwfl_report_end(files, NULL, NULL);
	}
	return module && dwfl_module_getelf(module, &bias) &&
	       add_function(t, module, address + bias);
}

#else

void symbols_use(void)
{
}

bool symbols_find(const char *path, uint64_t address, struct text *t)
{
	(void)path;
	(void)address;
	(void)t;
	return false;
}

#endif
