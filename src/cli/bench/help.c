/* SPDX-License-Identifier: Apache-2.0 */

/* What cohort bench --help prints. */

#include <stdio.h>

#include "cli/bench/bench.h"

/* clang-format off */
static const char usage[] =
	"usage: cohort bench COLLECTIVE [OPTION]...\n"
	"       cohort bench average --shapes FILE [OPTION]..., see its --help\n"
	"       cohort bench overlap --shapes FILE [OPTION]..., see its --help\n"
	"\n"
	"Measures a collective with one thread per rank, as nccl-tests does.\n"
	"COLLECTIVE is all, or one of these:";

static const char options[] =
	"  -b SIZE         first size in bytes, also with K, M or G (default 4)\n"
	"  -e SIZE         last size (default 64M, or -b if that is more)\n"
	"  -f N            each size is N times the one before (default 4)\n"
	"  -i SIZE         each size is larger by SIZE than the one before\n"
	"  --sizes LIST    these sizes instead, separated by commas\n"
	"  -g N            number of ranks (default: all GPUs; on the host platform one\n"
	"                  for each core, 2 to 8)\n"
	"  -d TYPE         float32 (default), another type, or all\n"
	"  -o OPERATION    sum (default), prod, max, min, avg, or all\n"
	"  -r RANK         root (default 0)\n"
	"  -n N            operations per round (default: as many as take 5 ms)\n"
	"  -w N            operations before those, not timed (default 2)\n"
	"  -c 0|1          check the results of the first and last round (default 1)\n"
	"  --rounds N      number of rounds; each measures everything (default 21)\n"
	"\n"
	"How operations are made; if several are given, each is measured:\n"
	"  --loop          one operation, then wait, again and again (default)\n"
	"  --rewrite       each rank rewrites what it sends before each operation,\n"
	"                  outside the timed part\n"
	"  --api           by cohort_*() (default)\n"
	"  --raw           by the platform's NCCL functions\n"
	"  --host          by cohort_*_host(), with plain memory; in place where there\n"
	"                  is one buffer; not for send_recv\n"
	"  --in-place      the result replaces what is sent (default)\n"
	"  --out-of-place  the result has a buffer of its own\n"
	"\n"
	"  --platform P    gpu or host (default: see cohort info)\n"
	"  --launch L      together or ahead: whether a rank's part is launched once all\n"
	"                  ranks have called, or at once (default: COHORT_LAUNCH,\n"
	"                  or else the platform's)\n"
	"  --no-pin        do not pin the ranks' threads to cores\n"
	"  --json          one JSON array instead of text\n"
	"  --plot FILE     also write a figure of the bandwidths: SVG, by gnuplot\n"
	"  -h, --help      this text\n"
	"\n"
	"Exit status: 1 also if a result was wrong.";
/* clang-format on */

void bench_help(void)
{
	puts(usage);
	for (size_t i = 0; i < collective_count; i++)
		printf("%s%s",
		       i == 0   ? "  "
		       : i == 6 ? ",\n  "
		                : ", ",
		       collectives[i].name);
	printf("\n\n%s\n", options);
}
