/* The filters of a character CNN on whole words: elmo/ops/char_windows.py describes them. */

#include "shared.h"

#define BLOCK 32 /* filters whose sums stay in registers */

typedef struct {
    ptrdiff_t columns, characters, filters, widths; /* of a word's ids; of the alphabet; of all widths; and how many */
    const int64_t *ids;                             /* words x columns */
    const int64_t *width, *count;                   /* of each width, and its filters */
    const float *sums;                              /* width after width: offset x characters x filters */
    float *out;                                     /* words x filters */
} Windows;

/* The characters up to the first of those at the end that are the same, which is padding in all but the longest words. */
static ptrdiff_t length(const int64_t *ids, ptrdiff_t columns) {
    ptrdiff_t last = columns - 1;
    while (last > 0 && ids[last - 1] == ids[columns - 1]) last--;
    return last;
}

/* out[f] = the largest of the sums over all windows of `width` characters, for BLOCK filters or fewer. */
static inline __attribute__((always_inline)) void largest(const float *sums, const int64_t *ids, ptrdiff_t windows,
                                                          ptrdiff_t width, ptrdiff_t characters, ptrdiff_t filters,
                                                          ptrdiff_t block, float *out) {
    float most[BLOCK];
    for (ptrdiff_t f = 0; f < block; f++) most[f] = -__builtin_inff();
    for (ptrdiff_t p = 0; p < windows; p++) {
        float sum[BLOCK];
        const float *row = sums + ids[p] * filters;
        for (ptrdiff_t f = 0; f < block; f++) sum[f] = row[f];
        for (ptrdiff_t o = 1; o < width; o++) {
            row = sums + (o * characters + ids[p + o]) * filters;
            for (ptrdiff_t f = 0; f < block; f++) sum[f] += row[f];
        }
        for (ptrdiff_t f = 0; f < block; f++) most[f] = sum[f] > most[f] ? sum[f] : most[f];
    }
    for (ptrdiff_t f = 0; f < block; f++) out[f] = most[f];
}

/* The words `begin` to `end`. */
void largest_windows(const Windows *of, ptrdiff_t begin, ptrdiff_t end) {
    for (ptrdiff_t w = begin; w < end; w++) {
        const int64_t *ids = of->ids + w * of->columns;
        float *out = of->out + w * of->filters;
        const float *sums = of->sums;
        const ptrdiff_t characters = length(ids, of->columns);
        for (ptrdiff_t k = 0; k < of->widths; k++) {
            const ptrdiff_t width = of->width[k], count = of->count[k], all = of->columns - width + 1;
            const ptrdiff_t windows = characters + 1 < all ? characters + 1 : all; /* the last one is padding alone */
            ptrdiff_t f = 0;
            for (; f + BLOCK <= count; f += BLOCK)
                largest(sums + f, ids, windows, width, of->characters, count, BLOCK, out + f);
            if (f < count) largest(sums + f, ids, windows, width, of->characters, count, count - f, out + f);
            sums += width * of->characters * count;
            out += count;
        }
    }
}
