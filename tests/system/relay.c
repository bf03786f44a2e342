/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Emulates a slow link, for kernels without netem: two tap devices, each of
 * which receives the frames sent to the other one, in order, MS milliseconds
 * later
 *
 *  relay MS ONE OTHER
 *
 * Exits with 0 once both devices exist. They exist as long as the background
 * process that this starts, and can be moved to other network namespaces.
 */

#include <err.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/if_tun.h>

#define QUEUE_BYTES (1 << 20)

/*
 * A frame in the pipe, which serves as a bounded queue. It is smaller than
 * PIPE_BUF, so that it is written atomically.
 */
struct late {
	struct timespec due;
	ssize_t bytes;
	char frame[1600]; /* enough for an MTU of 1500 */
};

struct way {
	int from, to;
	int queue[2];
};

static int64_t delay_ns;

static int open_tap(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		err(1, "/dev/net/tun");
	snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
	if (ioctl(fd, TUNSETIFF, &request))
		err(1, "%s", name);
	return fd;
}

static struct timespec due_time(void)
{
	struct timespec t;
	int64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ns = t.tv_nsec + delay_ns;
	t.tv_sec += ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	return t;
}

/*
 * Queue frames. If the queue is full, frames stay in the device, which drops
 * some of them.
 */
static void *take_frames(void *arg)
{
	const struct way *way = arg;
	struct late late = { .bytes = 0 };

	for (;;) {
		late.bytes = read(way->from, late.frame, sizeof(late.frame));
		if (late.bytes < 0)
			exit(0); /* the device is deleted */
		late.due = due_time();
		if (write(way->queue[1], &late, sizeof(late)) != sizeof(late))
			err(1, "queue");
	}
}

/*
 * Deliver frames. If a device refuses a frame because it is down, the frame is
 * lost.
 */
static void *give_frames(void *arg)
{
	const struct way *way = arg;
	struct late late;

	while (read(way->queue[0], &late, sizeof(late)) == sizeof(late)) {
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &late.due,
		                NULL);
		(void)!write(way->to, late.frame, (size_t)late.bytes);
	}
	err(1, "queue");
}

static void start(void *(*body)(void *), struct way *way)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, way))
		errx(1, "no thread");
}

int main(int argc, char **argv)
{
	struct way ways[2];
	int i, one, other;

	if (argc != 4)
		errx(2, "usage: relay MS ONE OTHER");
	delay_ns = atoll(argv[1]) * 1000000;
	one = open_tap(argv[2]);
	other = open_tap(argv[3]);
	if (daemon(0, 1))
		err(1, "daemon");
	ways[0] = (struct way){ .from = one, .to = other };
	ways[1] = (struct way){ .from = other, .to = one };
	for (i = 0; i < 2; i++) {
		if (pipe2(ways[i].queue, O_CLOEXEC) ||
		    fcntl(ways[i].queue[1], F_SETPIPE_SZ, QUEUE_BYTES) < 0)
			err(1, "queue");
		start(take_frames, &ways[i]);
		start(give_frames, &ways[i]);
	}
	pthread_exit(NULL);
}
