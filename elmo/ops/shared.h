/* What the compiled parts have in common: functions of numbers, and work that threads share. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float from_bits(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline uint32_t to_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

static inline float clipped(float x, float limit) {
    x = x > limit ? limit : x;
    return x < -limit ? -limit : x;
}

/* e^x = 2^n e^r, |r| <= ln(2) / 2. The polynomial is interpolated at Chebyshev's points, 3e-9 from e^r at most. */
static inline float exponential(float x) {
    x = clipped(x, 87.0f);
    float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* 1.5 * 2^23: no digits are left behind the point */
    float r = x - n * 0.693147182f + n * 1.90465421e-9f;
    float p = 0.0013948581f;
    p = p * r + 0.008375129f;
    p = p * r + 0.041666217f;
    p = p * r + 0.16666415f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * from_bits((uint32_t)((int32_t)n + 127) << 23);
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }
static inline float hyperbolic_tangent(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

/* `size` things that threads share: each takes the next part of them until none is left. */
typedef struct {
    void (*work)(const void *step, ptrdiff_t begin, ptrdiff_t end);
    const void *step;
    ptrdiff_t size, part, next;
} Shared;

static void take_parts(void *argument) {
    Shared *shared = argument;
    for (;;) {
        ptrdiff_t begin = __atomic_fetch_add(&shared->next, shared->part, __ATOMIC_RELAXED);
        if (begin >= shared->size) return;
        ptrdiff_t end = begin + shared->part;
        shared->work(shared->step, begin, end < shared->size ? end : shared->size);
    }
}

/* `parallel` is GOMP_parallel of the OpenMP library that torch uses: its threads are the ones that are awake. A part is a
   multiple of `unit`. */
void shared_by(void (*parallel)(void (*)(void *), void *, unsigned, unsigned), unsigned threads,
               void (*work)(const void *, ptrdiff_t, ptrdiff_t), const void *step, ptrdiff_t size,
               ptrdiff_t unit) {
    ptrdiff_t part = (size + threads - 1) / threads;
    Shared shared = {work, step, size, (part + unit - 1) / unit * unit, 0};
    parallel(take_parts, &shared, threads, 0);
}
