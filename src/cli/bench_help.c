/* SPDX-License-Identifier: Apache-2.0 */

/* What cohort bench --help prints. */

#include <stdio.h>

#include "bench.h"

void bench_help(void)
{
	puts("usage: cohort bench COLLECTIVE [OPTION]...\n"
	     "       cohort bench average --shapes FILE [OPTION]..., see its "
	     "--help\n"
	     "       cohort bench overlap --shapes FILE [OPTION]..., likewise\n"
	     "\n"
	     "Measures a collective with one thread per rank, in the way of "
	     "nccl-tests.\n"
	     "COLLECTIVE is all, or one of these:");
	for (size_t i = 0; i < collective_count; i++)
		printf("%s%s",
		       i == 0   ? "  "
		       : i == 6 ? ",\n  "
		                : ", ",
		       collectives[i].name);
	puts("\n"
	     "\n"
	     "  -b SIZE         first size in bytes, also with K, M or G "
	     "(default 4)\n"
	     "  -e SIZE         last size (default 64M, or -b if that is "
	     "more)\n"
	     "  -f N            each is N times the one before (default 4)\n"
	     "  -i SIZE         each is that much more than the one before\n"
	     "  --sizes LIST    these, with commas\n"
	     "  -g N            ranks (default: the GPUs, or the host's cores, "
	     "2 to 8)\n"
	     "  -d TYPE         float32 (default), another one, or all\n"
	     "  -o OPERATION    sum (default), prod, max, min, avg, or all\n"
	     "  -r RANK         root (default 0)\n"
	     "  -n N            operations per round (default: 5 ms, with "
	     "work 100 ms)\n"
	     "  -w N            operations before those, not timed (default "
	     "2)\n"
	     "  -c 0|1          check the results in the first and last round "
	     "(default 1)\n"
	     "  --rounds N      of all that is measured, in turn (default 21)\n"
	     "\n"
	     "What is measured; of several, each:\n"
	     "  --loop          one operation, then wait, again and again "
	     "(default)\n"
	     "  --rewrite       each rank rewrites what it sends before each "
	     "operation,\n"
	     "                  outside the timed part\n"
	     "  --queued K      K operations, then one wait; time of one\n"
	     "  --enqueue K     likewise, without the wait\n"
	     "  --compute US    work of so many microseconds before each "
	     "operation, both\n"
	     "                  timed; with --limit beside the work alone\n"
	     "  --unbalanced    of that rank r has r + 1 shares\n"
	     "  --api           through cohort_*() (default)\n"
	     "  --raw           through NCCL's functions of the platform\n"
	     "  --direct        by the ranks' own threads, which meet before "
	     "and after it\n"
	     "  --host          by cohort_*_host(), with plain memory; in "
	     "place "
	     "where there\n"
	     "                  is one buffer, not queued, and not send_recv\n"
	     "  --host-timed    the same with a timeout\n"
	     "  --in-place      what is sent is where the result goes "
	     "(default)\n"
	     "  --out-of-place  it is not\n"
	     "\n"
	     "  --limit         compare with the same loads and stores without "
	     "waiting\n"
	     "                  for anybody, by turns\n"
	     "  --platform P    gpu or host (default: what cohort info tells)\n"
	     "  --no-pin        leave it to the system on which cores the "
	     "ranks run\n"
	     "  --json          one JSON array instead of text\n"
	     "  --plot FILE     a figure of the bandwidths, too: SVG, by "
	     "gnuplot\n"
	     "  -h, --help      this text\n"
	     "\n"
	     "Exit status: 1 also if a result was wrong.");
}
