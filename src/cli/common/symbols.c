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

/* Guarded by lock; NULL before the start, or if the start failed */
static Dwfl *session;

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

/* Read the list of loaded files again, because new libraries may have been
 * loaded. */
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

/* Add the function, with its source line as " (file.c:12)", or with the offset
 * as "+0x2a" if the line is not known. */
static bool add_function(struct text *t, Dwfl_Module *module,
                         Dwarf_Addr address)
{
	Dwfl_Line *line = dwfl_module_getsrc(module, address);
	const char *name, *file = NULL;
	GElf_Off into;
	GElf_Sym symbol;
	int number = 0;

	name = dwfl_module_addrinfo(module, address, &into, &symbol, NULL, NULL,
	                            NULL);
	if (!name)
		return false;
	if (line)
		file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	text_add(t, "%s", name);
	if (file)
		text_add(t, " (%s:%d)", basename(file), number);
	else
		text_add(t, "+0x%llx", (unsigned long long)into);
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

	/* Another thread may hold the lock for long, so return without a
	 * name. */
	if (pthread_mutex_trylock(&lock))
		return false;
	is_known = session && add_locked(t, address);
	pthread_mutex_unlock(&lock);
	return is_known;
}

/* Look up a function in this file and one in libc in advance, because the first
 * lookup in each file takes a long time. */
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

	/* Verdicts must not wait for a debuginfod server. */
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
	static Dwfl *files; /* session that has loaded the file @last */
	static Dwfl_Module *module;
	GElf_Addr bias;

	if (!files || strcmp(last, path) != 0) {
		/* do not query a debuginfod server */
		unsetenv("DEBUGINFOD_URLS");
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

/* Largest number of frames to name, and largest number of frames to read */
enum { MOST_NAMED = 12, MOST_FRAMES = 64 };

/* Addresses of the frames of a stack, innermost first */
struct frames {
	Dwarf_Addr of[MOST_FRAMES];
	int n;
};

static bool is_of_libc(const char *name)
{
	return strncmp(name, "libc.so", 7) == 0 ||
	       strncmp(name, "libpthread.so", 13) == 0 ||
	       strncmp(name, "ld-linux", 8) == 0;
}

/* Add a frame's address.  Look up its name later, because reading debug
 * information takes a long time and the thread is stopped now. */
static int add_frame(Dwfl_Frame *frame, void *arg)
{
	struct frames *f = arg;
	bool is_activation = false;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, &is_activation))
		return DWARF_CB_ABORT;
	/* A return address may belong to the next source line, so look up the
	 * byte before it. */
	f->of[f->n++] = pc - !is_activation;
	return f->n < MOST_FRAMES ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* Add the name of the frame at @pc, unless it belongs to the C library.  Return
 * whether it was added. */
static bool name_frame(struct text *t, Dwfl *dwfl, Dwarf_Addr pc, bool is_first)
{
	Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
	Dwarf_Addr start;
	const char *file = module ? dwfl_module_info(module, NULL, &start, NULL,
	                                             NULL, NULL, NULL, NULL)
	                          : NULL;

	if (!module || is_of_libc(basename(file ? file : "")))
		return false;
	text_add(t, "%s", is_first ? "" : " < ");
	if (!add_function(t, module, pc))
		text_add(t, "%s+0x%llx", basename(file ? file : ""),
		         (unsigned long long)(pc - start));
	return true;
}

bool symbols_add_stack(struct text *t, int64_t pid, int tid)
{
	Dwfl *dwfl = dwfl_begin(&callbacks);
	struct frames f = { .n = 0 };
	int named = 0;

	if (dwfl && !dwfl_linux_proc_report(dwfl, (pid_t)pid) &&
	    !dwfl_report_end(dwfl, NULL, NULL) &&
	    !dwfl_linux_proc_attach(dwfl, (pid_t)pid, false))
		dwfl_getthread_frames(dwfl, tid, add_frame, &f);
	for (int i = 0; i < f.n && named < MOST_NAMED; i++)
		named += name_frame(t, dwfl, f.of[i], !named);
	dwfl_end(dwfl);
	return named > 0;
}

#else

void symbols_use(void)
{
}

bool symbols_add_stack(struct text *t, int64_t pid, int tid)
{
	(void)t;
	(void)pid;
	(void)tid;
	return false;
}

bool symbols_find(const char *path, uint64_t address, struct text *t)
{
	(void)path;
	(void)address;
	(void)t;
	return false;
}

#endif
