/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/estimate.h"

static uint64_t longer(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void estimate_add(struct estimate *e, uint64_t took_ns, uint64_t now_ns)
{
	if (!e->is_begun) {
		e->is_begun = true;
		e->began_ns = now_ns;
		return;
	}
	if (e->now.count >= WINDOW_COUNT && now_ns - e->began_ns >= WINDOW_NS) {
		e->before = e->now;
		e->now = (struct window){ .count = 0 };
		e->began_ns = now_ns;
	}
	e->seen++;
	e->now.count++;
	e->now.longest_ns = longer(e->now.longest_ns, took_ns);
}

struct window estimate_window(const struct estimate *e)
{
	return (struct window){
		.count = e->now.count + e->before.count,
		.longest_ns = longer(e->now.longest_ns, e->before.longest_ns),
	};
}

uint64_t estimate_limit(const struct estimate *e, const struct adaptive *a,
                        uint64_t most_ns)
{
	uint64_t longest = estimate_window(e).longest_ns, ns;

	if (!a->factor || !e->seen || e->seen < a->warmup)
		return most_ns;
	ns = longest > UINT64_MAX / a->factor ? UINT64_MAX
	                                      : longest * a->factor;
	ns = longer(ns, a->floor_ns);
	return ns < most_ns ? ns : most_ns;
}
