/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the demo shows: progress while it trains, the report at the end
 */

#include "demo.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cohort/cohort.h>

#include "cli.h"
#include "digits.h"
#include "json.h"

/* ---- progress --------------------------------------------------------- */

#define PROGRESS_INTERVAL 0.05 /* seconds from one drawing to the next */

double demo_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void progress_start(struct progress *progress)
{
	struct winsize size;

	progress->shown = isatty(STDERR_FILENO);
	progress->width = 80;
	progress->drawn = -PROGRESS_INTERVAL;
	if (progress->shown && !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) &&
	    size.ws_col > 0)
		progress->width = size.ws_col;
}

void progress_draw(struct progress *progress, size_t done, size_t total,
                   double loss, double accuracy)
{
	char bar[] = "####################", line[160];
	double now = demo_seconds();

	if (!progress->shown || now - progress->drawn < PROGRESS_INTERVAL)
		return;
	progress->drawn = now;
	for (size_t i = done * (sizeof(bar) - 1) / total; bar[i]; i++)
		bar[i] = '.';
	snprintf(line, sizeof(line),
	         "[%s] epoch %zu/%zu  loss %.4f  accuracy %.3f", bar, done,
	         total, loss, accuracy);
	/* The last column stays free: some terminals wrap at once. */
	fprintf(stderr, "\r%-*.*s", progress->width - 1, progress->width - 1,
	        line);
	fflush(stderr);
}

void progress_erase(struct progress *progress)
{
	if (!progress->shown)
		return;
	fprintf(stderr, "\r%*s\r", progress->width - 1, "");
	fflush(stderr);
	progress->shown = false;
}

/* ---- the report ------------------------------------------------------- */

enum { CURVE_COLUMNS = 40, CURVE_LEVELS = 8 };

static const char *const ascii_levels[CURVE_LEVELS] = { "_", ".", "-", "=",
	                                                "+", "*", "%", "#" };
static const char *const block_levels[CURVE_LEVELS] = { "▁", "▂", "▃", "▄",
	                                                "▅", "▆", "▇", "█" };

/* "0-3,5": devices in rank order, runs joined. */
static void print_devices(const int *devices, int n)
{
	for (int first = 0, last; first < n; first = last + 1) {
		last = first;
		while (last + 1 < n && devices[last + 1] == devices[last] + 1)
			last++;
		printf("%s%d", first ? "," : "", devices[first]);
		if (last > first)
			printf("-%d", devices[last]);
	}
}

/* Where @loss stands between @low and @high, as a level, on a logarithmic
 * scale; the top for what is not a number. */
static int curve_level(double loss, double low, double high)
{
	double place;

	if (!(low > 0.0 && high > low && loss > 0.0))
		return loss <= low ? 0 : CURVE_LEVELS - 1;
	place = log(loss / low) / log(high / low);
	return (int)(fmin(fmax(place, 0.0), 1.0) * (CURVE_LEVELS - 1) + 0.5);
}

/* One character per epoch, or for the last of a few epochs. */
static void print_curve(const double *curve, size_t n)
{
	bool utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	const char *const *levels = utf8 ? block_levels : ascii_levels;
	size_t columns = n < CURVE_COLUMNS ? n : CURVE_COLUMNS;
	double low = INFINITY, high = 0.0;

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(curve[i]))
			continue;
		low = fmin(low, curve[i]);
		high = fmax(high, curve[i]);
	}
	for (size_t i = 0; i < columns; i++) {
		double loss = curve[(i + 1) * n / columns - 1];

		fputs(levels[curve_level(loss, low, high)], stdout);
	}
}

void report_print(const struct demo_options *options,
                  const struct demo_result *result)
{
	double loss = result->curve[options->epochs - 1];
	bool one = options->ranks == 1;

	printf("platform  %s, %d rank%s on device%s ",
	       cli_platform_name(result->platform), options->ranks,
	       one ? "" : "s", one ? "" : "s");
	print_devices(result->devices, options->ranks);
	printf("\naccuracy  %.4f on %d held-out images\n", result->accuracy,
	       DIGITS_HELD_OUT);
	printf("loss      %.5g after %zu epochs, %llu steps\n", loss,
	       options->epochs, (unsigned long long)result->steps);
	printf("curve     ");
	print_curve(result->curve, options->epochs);
	printf("  log, from %.3g\n", result->curve[0]);
	printf("time      %.2f s: %.2f s in compute, %.2f s in communication\n",
	       result->seconds, result->compute_seconds, result->comm_seconds);
	if (options->verify)
		printf("verify    largest difference from a single run: %g\n",
		       result->difference);
}

void report_json(const struct demo_options *options,
                 const struct demo_result *result)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_string(&json, "platform", cli_platform_name(result->platform));
	json_int(&json, "ranks", options->ranks);
	json_open(&json, "devices", '[');
	for (int i = 0; i < options->ranks; i++)
		json_int(&json, NULL, result->devices[i]);
	json_close(&json, ']');
	json_uint(&json, "epochs", options->epochs);
	json_uint(&json, "batch", options->batch);
	json_float(&json, "lr", options->lr);
	json_float(&json, "momentum", options->momentum);
	json_uint(&json, "seed", options->seed);
	json_uint(&json, "held_out", DIGITS_HELD_OUT);
	json_double(&json, "accuracy", result->accuracy);
	json_double(&json, "loss", result->curve[options->epochs - 1]);
	json_open(&json, "loss_curve", '[');
	for (size_t i = 0; i < options->epochs; i++)
		json_double(&json, NULL, result->curve[i]);
	json_close(&json, ']');
	json_uint(&json, "steps", result->steps);
	json_double(&json, "seconds", result->seconds);
	json_double(&json, "compute_seconds", result->compute_seconds);
	json_double(&json, "comm_seconds", result->comm_seconds);
	if (options->verify)
		json_double(&json, "max_abs_diff_vs_single",
		            result->difference);
	else
		json_null(&json, "max_abs_diff_vs_single");
	json_close(&json, '}');
	putchar('\n');
}
