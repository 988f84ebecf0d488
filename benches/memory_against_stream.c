/* Plain loops that measure memory, for benches/memory_against_stream.py.
 *
 * usage: program triad|load|chain BYTES SECONDS CPU
 *
 * BYTES is the size of all arrays together. Prints the median over repetitions, in MB/s (10^6 bytes a
 * second; the triad counts its three arrays, as STREAM does) or in ns a load. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* LOADS: short enough for most repetitions to run undisturbed on a busy machine. */
enum { MOST = 4096, LINE_WORDS = 8, LOADS = 8192 };

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void triad(double *restrict a, const double *restrict b, const double *restrict c,
                  size_t words, double scale) {
    for (size_t i = 0; i < words; i++) a[i] = b[i] + scale * c[i];
}

static uint64_t load(const uint64_t *words, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += words[i];
    return sum;
}

static uint64_t chain(const uint64_t *words, uint64_t at, size_t loads) {
    while (loads--) at = words[at];
    return at;
}

static void link_chain(uint64_t *words, size_t lines) {
    uint64_t state = 88172645463325252u;
    for (size_t line = 0; line < lines; line++) words[line * LINE_WORDS] = line * LINE_WORDS;
    for (size_t line = lines - 1; line > 0; line--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t other = state % line;
        uint64_t kept = words[line * LINE_WORDS];
        words[line * LINE_WORDS] = words[other * LINE_WORDS];
        words[other * LINE_WORDS] = kept;
    }
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int is_triad = !strcmp(arguments[1], "triad"), is_load = !strcmp(arguments[1], "load");
    size_t bytes = strtoull(arguments[2], NULL, 10), words = bytes / 8, third = words / 3;
    double seconds = atof(arguments[3]);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(arguments[4]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) return 3;
    uint64_t *buffer = aligned_alloc(2 << 20, (bytes + 8192 + (2 << 20) - 1) & ~((2ul << 20) - 1));
    if (!buffer) return 3;
    double *a = (double *)buffer, *b = a + third + 272, *c = b + third + 272;
    if (is_triad) {
        for (size_t i = 0; i < third; i++) a[i] = b[i] = c[i] = 1.0;
    } else if (is_load) {
        memset(buffer, 1, bytes);
    } else {
        madvise(buffer, bytes, MADV_HUGEPAGE);
        link_chain(buffer, words / LINE_WORDS);
    }
    static double results[MOST];
    volatile uint64_t kept = 0;
    size_t passes = 1, n = 0;
    for (double end = 0; n < MOST && (n < 3 || now_s() < end);) {
        double begin = now_s();
        for (size_t pass = 0; pass < passes; pass++) {
            if (is_triad) triad(a, b, c, third, 3.0);
            else if (is_load) kept += load(buffer, words);
            else kept = chain(buffer, kept, LOADS);
            __asm__ volatile("" ::: "memory");
        }
        double taken = now_s() - begin;
        if (end == 0) {
            if (taken < 50e-6) { passes *= 2; continue; }
            end = now_s() + seconds;
            continue;
        }
        double moved = (is_triad ? 3 * third : words) * 8.0 * passes;
        results[n++] = is_triad || is_load ? moved / taken / 1e6 : taken * 1e9 / LOADS / passes;
    }
    qsort(results, n, sizeof *results, ascending);
    printf("%.6g\n", results[n / 2]);
    return 0;
}
