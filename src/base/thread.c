/* SPDX-License-Identifier: Apache-2.0 */

#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* Number of bytes of stack that a small signal handler needs in addition to the
 * kernel's frame. */
#define HANDLER_ROOM 1024

/* Atomic; ids of up to CRAMPED threads whose alternate signal stack is too
 * small, followed by zeros.  Each thread adds itself before other threads know
 * its id. */
#define CRAMPED 64
static atomic_int cramped[CRAMPED];

/* Atomic; true if a thread has found the array full, so that any thread may
 * have a small stack. */
static atomic_bool too_many_cramped;

/* Fill @set with all signals except the signals that an instruction of the
 * thread itself raises: if these were blocked, the kernel would end the process
 * without calling the program's handler. */
static void fill_blockable_signals(sigset_t *set)
{
	static const int faults[] = {
		SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS,
	};
	size_t i;

	sigfillset(set);
	for (i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(set, faults[i]);
}

void thread_sanitize_name(char *name)
{
	int n;

	for (; *name; name += n ? n : 1) {
		n = text_character(name);
		if (!n)
			*name = '?';
	}
}

int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg,
                 const char *format, ...)
{
	char name[THREAD_NAME_SIZE] = "";
	sigset_t blocked, old;
	va_list args;
	int err;

	if (format) {
		va_start(args, format);
		vsnprintf(name, sizeof(name), format, args);
		va_end(args);
		thread_sanitize_name(name);
	}

	fill_blockable_signals(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &old);
	err = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err && *name)
		pthread_setname_np(*thread, name);
	return err;
}

static bool has_small_signal_stack(void)
{
	size_t least = (size_t)getauxval(AT_MINSIGSTKSZ);
	stack_t stack;

	if (!least)
		least = 5120; /* unknown on old kernels; no frame is larger */
	return !sigaltstack(NULL, &stack) && !(stack.ss_flags & SS_DISABLE) &&
	       stack.ss_size < least + HANDLER_ROOM;
}

static void record_signal_stack(int tid)
{
	int i, there;

	/* An earlier thread with the same id may have left its entry. */
	for (i = 0; i < CRAMPED; i++) {
		there = tid;
		atomic_compare_exchange_strong(&cramped[i], &there, 0);
	}
	if (!has_small_signal_stack())
		return;
	for (i = 0; i < CRAMPED; i++) {
		there = atomic_load(&cramped[i]);
		if ((!there || thread_has_ended(there)) &&
		    atomic_compare_exchange_strong(&cramped[i], &there, tid))
			return;
	}
	atomic_store(&too_many_cramped, true);
}

bool thread_has_small_signal_stack(int tid)
{
	int i;

	for (i = 0; i < CRAMPED; i++)
		if (atomic_load(&cramped[i]) == tid)
			return true;
	return atomic_load(&too_many_cramped);
}

static _Thread_local int id; /* 0 until the first thread_id() */

int thread_id(void)
{
	int error;

	if (!id) {
		error = errno;
		id = (int)syscall(SYS_gettid);
		record_signal_stack(id);
		errno = error;
	}
	return id;
}

void thread_recheck_signal_stack(void)
{
	id = 0;
}

/* Open the file @what in /proc about a thread of process @pid, or of this
 * process if @pid is 0.  Allocates nothing, because a thread may be stuck while
 * it holds the allocator's lock. */
static int open_thread_file(int64_t pid, int tid, const char *what)
{
	char path[64];

	if (pid)
		snprintf(path, sizeof(path), "/proc/%lld/task/%d/%s",
		         (long long)pid, tid, what);
	else
		snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid,
		         what);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Read the start of a file and close it.  Store "" if it cannot be read. */
static void read_start(int fd, char *text, size_t room)
{
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, room - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
}

static void read_about(int64_t pid, int tid, const char *what, char *text,
                       size_t room)
{
	read_start(open_thread_file(pid, tid, what), text, room);
}

/* Read a "stat" file of /proc into the @room bytes at @stat.  Return a pointer
 * to the letter of the state, or NULL if it is unknown.  The name before the
 * state may contain any characters. */
static const char *read_stat(int fd, char *stat, size_t room)
{
	const char *name_end;

	read_start(fd, stat, room);
	name_end = strrchr(stat, ')');
	return name_end && name_end[1] == ' ' ? name_end + 2 : NULL;
}

/* Return the letter of the state in a "stat" file, or 0 if unknown. */
static char state_in(int fd)
{
	char stat[128];
	const char *state = read_stat(fd, stat, sizeof(stat));

	return state ? *state : '\0';
}

uint64_t thread_delayed_ns(void)
{
	unsigned long long delayed = 0;
	char text[64];

	read_about(0, thread_id(), "schedstat", text, sizeof(text));
	return sscanf(text, "%*u %llu", &delayed) == 1 ? delayed : 0;
}

static int open_process(int64_t pid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

char thread_process_state(int64_t pid)
{
	return state_in(open_process(pid));
}

bool thread_process_is_gone(int64_t pid)
{
	char state;

	/* Do not rely on /proc alone, because reading it fails if this process
	 * is out of descriptors. */
	if (pid <= 0 || (kill((pid_t)pid, 0) && errno == ESRCH))
		return true;
	state = thread_process_state(pid);
	return state == 'Z' || state == 'X';
}

const char *thread_process_stop(int64_t pid)
{
	switch (thread_process_state(pid)) {
	case 'T':
		return "is stopped";
	case 't':
		return "is stopped by a debugger";
	default:
		return NULL;
	}
}

/* Start of struct pidfd_info, in which Linux 6.15 reports how a process has
 * ended, even after its parent has reaped it. */
struct pidfd_exit {
	uint64_t mask;
	uint32_t others[13];
	int32_t status;
};

_Static_assert(sizeof(struct pidfd_exit) == 64, "as in the first version");

#define PIDFD_HAS_EXIT (UINT64_C(1) << 3)
#define PIDFD_ASK _IOWR(0xFF, 11, struct pidfd_exit)

/* Flag of a process that is exiting, in include/linux/sched.h. */
#define FLAG_EXITING 0x4

/* Return field @n of a "stat" file, where the state is field 0. */
static const char *stat_field(const char *state, int n)
{
	while (state && n--) {
		state = strchr(state, ' ');
		state += state != NULL;
	}
	return state;
}

int64_t thread_process_parent(int64_t pid)
{
	char stat[128];
	const char *state = read_stat(open_process(pid), stat, sizeof(stat));
	const char *parent = stat_field(state, 1);

	return parent ? strtoll(parent, NULL, 10) : 0;
}

/* Return the exit status of a process that is not reaped yet, or -1. */
static int read_end(int64_t pid, int pidfd)
{
	char stat[1024];
	const char *state = read_stat(open_process(pid), stat, sizeof(stat));
	const char *flags = stat_field(state, 6);
	const char *status = stat_field(state, 49);

	if (!status || !(strtoul(flags, NULL, 10) & FLAG_EXITING))
		return -1;
	/* If the process has already been reaped, the file may have described
	 * another process with the same pid. */
	return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0)
	               ? -1
	               : (int)strtol(status, NULL, 10);
}

int thread_process_end(int64_t pid, int pidfd)
{
	struct pidfd_exit e = { .mask = PIDFD_HAS_EXIT };
	int status;

	if (pidfd < 0)
		return -1;
	/* Read /proc before the pidfd, because the parent may reap the process
	 * in between. */
	status = read_end(pid, pidfd);
	if (status >= 0 || ioctl(pidfd, PIDFD_ASK, &e) ||
	    !(e.mask & PIDFD_HAS_EXIT))
		return status;
	return e.status;
}

void thread_add_end(struct text *t, int status)
{
	if (status < 0)
		text_add(t, "is gone");
	else if (WIFSIGNALED(status))
		text_add(t, "was killed by signal %d", WTERMSIG(status));
	else
		text_add(t, "has exited with status %d", WEXITSTATUS(status));
}

bool thread_has_ended(int tid)
{
	/* Do not read /proc, because the process may have no free
	 * descriptor. */
	if (syscall(SYS_tgkill, getpid(), tid, 0))
		return errno == ESRCH;
	return tid == getpid() &&
	       state_in(open_thread_file(0, tid, "stat")) == 'Z';
}

static void read_name(int64_t pid, int tid, char name[THREAD_NAME_SIZE])
{
	read_about(pid, tid, "comm", name, THREAD_NAME_SIZE);
	name[strcspn(name, "\n")] = '\0';
}

bool thread_lives(int tid, char name[THREAD_NAME_SIZE])
{
	name[0] = '\0';
	if (thread_has_ended(tid))
		return false;
	read_name(0, tid, name);
	return true;
}

bool thread_of_lives(int64_t pid, int tid, char name[THREAD_NAME_SIZE])
{
	char state = state_in(open_thread_file(pid, tid, "stat"));

	name[0] = '\0';
	if (!state || state == 'Z' || state == 'X')
		return false;
	read_name(pid, tid, name);
	return true;
}

/* Return the name of a common system call, or NULL. */
static const char *call_name(long number)
{
	static const struct {
		long number;
		const char *name;
	} calls[] = {
		{ SYS_futex, "futex" },
		{ SYS_clock_nanosleep, "clock_nanosleep" },
		{ SYS_nanosleep, "nanosleep" },
		{ SYS_restart_syscall, "restart_syscall" },
		{ SYS_read, "read" },
		{ SYS_write, "write" },
		{ SYS_ppoll, "ppoll" },
		{ SYS_epoll_pwait, "epoll_pwait" },
#ifdef SYS_poll
		{ SYS_poll, "poll" },
		{ SYS_epoll_wait, "epoll_wait" },
		{ SYS_pause, "pause" },
#endif
		{ SYS_ioctl, "ioctl" },
		{ SYS_wait4, "wait4" },
		{ SYS_recvfrom, "recvfrom" },
		{ SYS_recvmsg, "recvmsg" },
		{ SYS_sendto, "sendto" },
		{ SYS_sendmsg, "sendmsg" },
		{ SYS_accept4, "accept4" },
		{ SYS_connect, "connect" },
		{ SYS_flock, "flock" },
		{ SYS_fsync, "fsync" },
		{ SYS_munmap, "munmap" },
		{ SYS_rt_sigtimedwait, "rt_sigtimedwait" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return calls[i].name;
	return NULL;
}

const char *thread_state_name(char state)
{
	switch (state) {
	case 'R':
		return "running";
	case 'S':
		return "asleep";
	case 'D':
		return "in uninterruptible sleep";
	case 'T':
	case 't':
		return "stopped";
	default:
		return "ending";
	}
}

/* Append the system call that the thread is in.  If it is unknown, append the
 * place in the kernel where the thread sleeps. */
static void add_call(struct text *t, int64_t pid, int tid)
{
	char what[64];
	char *end;
	long number;

	read_about(pid, tid, "syscall", what, sizeof(what));
	number = strtol(what, &end, 10);
	if (end != what && call_name(number)) {
		text_add(t, " in %s", call_name(number));
	} else if (end != what && number >= 0) {
		text_add(t, " in system call %ld", number);
	} else {
		read_about(pid, tid, "wchan", what, sizeof(what));
		if (*what && strcmp(what, "0") != 0)
			text_add(t, " in %s", what);
	}
}

void thread_state(int tid, char state[THREAD_STATE_SIZE])
{
	thread_of_state(0, tid, state);
}

int thread_awaits(int tid)
{
	unsigned long operation, value;
	char text[256];
	long call;

	/* The file has "NUMBER ADDRESS OPERATION VALUE ...", the arguments in
	 * hexadecimal, or "running" if the thread runs. */
	read_about(0, tid, "syscall", text, sizeof(text));
	if (sscanf(text, "%ld %*x %lx %lx", &call, &operation, &value) != 3 ||
	    call != SYS_futex)
		return 0;
	/* pthread_join() waits for the kernel to clear the id of the thread,
	 * in a futex that is not private. */
	if (!(operation & FUTEX_PRIVATE_FLAG) && value && value <= INT_MAX &&
	    thread_lives((int)value, (char[THREAD_NAME_SIZE]){ "" }))
		return (int)value;
	return -1;
}

void thread_of_state(int64_t pid, int tid, char state[THREAD_STATE_SIZE])
{
	struct text t = { state, THREAD_STATE_SIZE };
	char letter = state_in(open_thread_file(pid, tid, "stat"));

	state[0] = '\0';
	if (!letter || letter == 'Z')
		return;
	text_add(&t, "%s", thread_state_name(letter));
	if (letter != 'R')
		add_call(&t, pid, tid);
}

/* Find the line that starts with @name, and return the hexadecimal number that
 * follows, or 0 if there is no such line.  @name includes the newline before
 * the line. */
static uint64_t find_mask(int fd, const char *name)
{
	enum { LINE = 64 }; /* maximum length of the line */
	char text[1024];
	const char *mask;
	size_t used = 0;
	ssize_t n;

	while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
		used += (size_t)n;
		text[used] = '\0';
		mask = strstr(text, name);
		if (mask && strchr(mask + 1, '\n'))
			return strtoull(mask + strlen(name), NULL, 16);
		if (used > LINE) {
			memmove(text, text + used - LINE, LINE);
			used = LINE;
		}
	}
	return 0;
}

bool thread_blocks(int tid, int signo)
{
	int fd = open_thread_file(0, tid, "status");
	uint64_t mask = 0;

	if (fd >= 0) {
		mask = find_mask(fd, "\nSigBlk:");
		close(fd);
	}
	return mask >> (signo - 1) & 1;
}

int thread_list(int *tids, int room)
{
	_Alignas(struct dirent64) char entries[4096];
	int dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent64 *entry;
	int count = 0;
	long n, at;

	while (dir >= 0 &&
	       (n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0)
		for (at = 0; at < n; at += entry->d_reclen) {
			entry = (const void *)(entries + at);
			if (entry->d_name[0] == '.')
				continue;
			if (count < room)
				tids[count] = atoi(entry->d_name);
			count++;
		}
	if (dir >= 0)
		close(dir);
	return count;
}

ssize_t write_quietly(int fd, const void *bytes, size_t n, int signo, int error)
{
	const struct timespec now = { 0, 0 };
	sigset_t set, former, pending;
	ssize_t written;
	int err;

	sigemptyset(&set);
	sigaddset(&set, signo);
	pthread_sigmask(SIG_BLOCK, &set, &former);
	sigpending(&pending);
	written = write(fd, bytes, n);
	err = errno;
	/* Consume the signal that this write raised, unless the same signal was
	 * already pending before the write. */
	if (written < 0 && err == error && !sigismember(&pending, signo))
		while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	errno = err;
	return written;
}

void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}
