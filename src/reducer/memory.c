/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arithmetic on gradients: on the host platform in place; on the gpu platform, because
 * the library has no kernels, on copies of their pieces in host memory
 */

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "reducer/reducer.h"

/* ---- types ------------------------------------------------------------ */

unsigned reducer_float(int type)
{
	switch (type) {
	case COHORT_F16:
		return 0;
	case COHORT_BF16:
		return 1;
	case COHORT_F32:
		return 2;
	case COHORT_F64:
		return 3;
	default:
		return REDUCER_FLOATS;
	}
}

/* ---- copies ----------------------------------------------------------- */

static int copy(struct cohort_reducer *r, void *dst, const void *src,
                size_t bytes, uint64_t *ticket)
{
	const struct cohort_tensor t = { src, dst, bytes, COHORT_U8 };
	struct op op = { .kind = OP_COPY, .tensors = &t, .n = 1 };

	return reducer_submit(r, &op, NULL, ticket);
}

/* The copy may be queued behind a collective.  The wait has no deadline then, because
 * the watchdog has one for the collective. */
static int copy_wait(struct cohort_reducer *r, void *dst, const void *src,
                     size_t bytes)
{
	uint64_t ticket;
	int rc = copy(r, dst, src, bytes, &ticket);

	return rc == COHORT_OK ? comm_await(r->comm, ticket, COHORT_FOREVER)
	                       : rc;
}

int reducer_push(struct cohort_reducer *r, void *device, const void *host,
                 size_t bytes)
{
	if (!r->is_host)
		return copy(r, device, host, bytes, NULL);
	memcpy(device, host, bytes);
	return COHORT_OK;
}

int reducer_pull(struct cohort_reducer *r, void *host, const void *device,
                 size_t bytes)
{
	if (!r->is_host)
		return copy_wait(r, host, device, bytes);
	memcpy(host, device, bytes);
	return COHORT_OK;
}

typedef void (*visit_fn)(void *memory, size_t count, void *user);

/* Device memory that is visited piece by piece. */
struct visit {
	struct cohort_reducer *r;
	unsigned char *device;
	size_t bytes; /* in total */
};

static size_t piece_of(const struct visit *v, size_t k)
{
	size_t left = v->bytes - k * v->r->piece;

	return left < v->r->piece ? left : v->r->piece;
}

static unsigned char *stage_of(const struct visit *v, size_t k)
{
	return v->r->stage + k % 2 * v->r->piece;
}

/* Copy piece @k to its stage, in the order of the stream. */
static int fetch(const struct visit *v, size_t k, uint64_t *ticket)
{
	return copy(v->r, stage_of(v, k), v->device + k * v->r->piece,
	            piece_of(v, k), ticket);
}

static int store(const struct visit *v, size_t k, uint64_t *ticket)
{
	return copy(v->r, v->device + k * v->r->piece, stage_of(v, k),
	            piece_of(v, k), ticket);
}

/* While @fn works on a piece, the piece before it is stored from the other half of the
 * stage, and the next piece is then fetched into that half. */
static int visit_pieces(const struct visit *v, size_t size, bool is_changed,
                        visit_fn fn, void *user)
{
	const size_t n = (v->bytes + v->r->piece - 1) / v->r->piece;
	uint64_t fetched[2], stored = 0;
	size_t k;
	int rc = fetch(v, 0, &fetched[0]);

	for (k = 0; k < n && rc == COHORT_OK; k++) {
		if (k + 1 < n)
			rc = fetch(v, k + 1, &fetched[(k + 1) % 2]);
		if (rc == COHORT_OK)
			rc = comm_await(v->r->comm, fetched[k % 2],
			                COHORT_FOREVER);
		if (rc != COHORT_OK)
			return rc;
		fn(stage_of(v, k), piece_of(v, k) / size, user);
		if (is_changed)
			rc = store(v, k, &stored);
	}
	return rc == COHORT_OK && stored
	               ? comm_await(v->r->comm, stored, COHORT_FOREVER)
	               : rc;
}

/* Call @fn for @count elements of @size bytes of device memory.  If that is not host
 * memory, @fn is called for copies of its pieces, and the next piece is copied
 * meanwhile.  Each piece but the last is of a multiple of 8 elements. */
static int visit(struct cohort_reducer *r, void *device, size_t count,
                 size_t size, bool is_changed, visit_fn fn, void *user)
{
	const struct visit v = { r, device, count * size };

	if (!r->is_host)
		return count ? visit_pieces(&v, size, is_changed, fn, user)
		             : COHORT_OK;
	fn(device, count, user);
	return COHORT_OK;
}

/* ---- zero ------------------------------------------------------------- */

int reducer_clear(struct cohort_reducer *r, void *device, size_t bytes)
{
	unsigned char *at = device;
	size_t k, n = REDUCER_ZEROS_BYTES;
	int rc = COHORT_OK;

	if (r->is_host) {
		memset(device, 0, bytes);
		return COHORT_OK;
	}
	for (k = 0; k < bytes && rc == COHORT_OK; k += n) {
		if (n > bytes - k)
			n = bytes - k;
		rc = copy(r, at + k, r->zeros, n, NULL);
	}
	return rc;
}

int reducer_zero(struct cohort_reducer *r, const struct reducer_item *item)
{
	return reducer_clear(r, item->gradient, item->bytes);
}

/* ---- scale ------------------------------------------------------------ */

/* Types other than float64 are multiplied as float32, then rounded. */
#define SCALE(name, type, load, store)                                         \
	static void scale_##name(void *memory, size_t count, void *user)       \
	{                                                                      \
		type *x = memory;                                              \
		float by = (float)*(const double *)user;                       \
		size_t i;                                                      \
                                                                               \
		for (i = 0; i < count; i++)                                    \
			x[i] = store(load(x[i]) * by);                         \
	}

SCALE(f16, uint16_t, f16_to_f32, f16_from_f32)
SCALE(bf16, uint16_t, bf16_to_f32, bf16_from_f32)
SCALE(f32, float, , )

static void scale_f64(void *memory, size_t count, void *user)
{
	double *x = memory, by = *(const double *)user;
	size_t i;

	for (i = 0; i < count; i++)
		x[i] *= by;
}

int reducer_scale(struct cohort_reducer *r, const struct reducer_item *item,
                  double factor)
{
	static const visit_fn scale[REDUCER_FLOATS] = { scale_f16, scale_bf16,
		                                        scale_f32, scale_f64 };

	return visit(r, item->gradient, item->count,
	             cohort_type_size(item->type), true,
	             scale[reducer_float(item->type)], &factor);
}

/* ---- halves ----------------------------------------------------------- */

void reducer_narrow(struct cohort_reducer *r, const struct reducer_item *item,
                    double factor)
{
	const float *x = (const float *)(const void *)item->gradient;
	uint16_t *h = (uint16_t *)(void *)r->wire + item->wire;
	float by = (float)factor;
	size_t i;

	if (r->options.transport == COHORT_F16)
		for (i = 0; i < item->count; i++)
			h[i] = f16_from_f32(x[i] * by);
	else
		for (i = 0; i < item->count; i++)
			h[i] = bf16_from_f32(x[i] * by);
}

void reducer_widen(struct cohort_reducer *r, const struct reducer_item *item)
{
	const uint16_t *h = (const uint16_t *)(void *)r->wire + item->wire;
	float *x = (float *)(void *)item->gradient;
	size_t i;

	if (r->options.transport == COHORT_F16)
		for (i = 0; i < item->count; i++)
			x[i] = f16_to_f32(h[i]);
	else
		for (i = 0; i < item->count; i++)
			x[i] = bf16_to_f32(h[i]);
}

/* ---- measure ---------------------------------------------------------- */

#define LANES 8

struct measuring {
	double lane[LANES];
	uint64_t infinite;
};

/* Eight sums side by side, which are then added in order: the order of additions does
 * not depend on the compiler, nor on the pieces. */
#define MEASURE(name, type, load, bad)                                         \
	static void measure_##name(void *memory, size_t count, void *user)     \
	{                                                                      \
		const type *x = memory;                                        \
		struct measuring *m = user;                                    \
		double lane[LANES], y;                                         \
		uint64_t infinite = 0;                                         \
		size_t i, k;                                                   \
                                                                               \
		memcpy(lane, m->lane, sizeof(lane));                           \
		for (i = 0; i + LANES <= count; i += LANES)                    \
			for (k = 0; k < LANES; k++) {                          \
				y = (double)load(x[i + k]);                    \
				lane[k] += y * y;                              \
				infinite += bad(y);                            \
			}                                                      \
		for (k = 0; i < count; i++, k++) {                             \
			y = (double)load(x[i]);                                \
			lane[k] += y * y;                                      \
			infinite += bad(y);                                    \
		}                                                              \
		memcpy(m->lane, lane, sizeof(lane));                           \
		m->infinite += infinite;                                       \
	}

/* Squares of types other than float64 do not overflow: if the sum is not finite, an
 * element is not. */
#define NO(y) 0
#define IS_BAD(y) (!((y) - (y) == 0.0))

MEASURE(f16, uint16_t, f16_to_f32, NO)
MEASURE(bf16, uint16_t, bf16_to_f32, NO)
MEASURE(f32, float, , NO)
MEASURE(f64, double, , IS_BAD)

int reducer_measure(struct cohort_reducer *r, const struct reducer_item *item,
                    size_t begin, size_t end, struct reducer_found *found)
{
	static const visit_fn measure[REDUCER_FLOATS] = {
		measure_f16, measure_bf16, measure_f32, measure_f64
	};
	struct reducer_found here = { 0.0, 0.0 };
	struct measuring m = { .infinite = 0 };
	size_t size = cohort_type_size(item->type);
	int k, rc;

	rc = visit(r, item->gradient + begin * size, end - begin, size, false,
	           measure[reducer_float(item->type)], &m);
	for (k = 0; k < LANES; k++)
		here.squares += m.lane[k];
	here.infinite = (double)m.infinite;
	if (item->type != COHORT_F64 && !isfinite(here.squares))
		here.infinite = 1.0;
	found->squares += here.squares;
	found->infinite += here.infinite;
	return rc;
}
