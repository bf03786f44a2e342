/* SPDX-License-Identifier: Apache-2.0 */

#include <stdarg.h>

#include "base/text.h"
#include "cli/check/check.h"

void check_tell(struct check *c, enum check_result result, const char *check,
                const char *subject, const char *advice, const char *format,
                ...)
{
	char what[4096];
	struct text t = { what, sizeof(what) };
	const struct finding f = {
		.result = result,
		.check = check,
		.subject = subject,
		.what = what,
		.advice = advice,
	};
	va_list args;

	va_start(args, format);
	text_vadd(&t, format, args);
	va_end(args);
	c->counts[result]++;
	c->tell(&f, c->user);
}
