/* A program whose data accesses are all its own: no library, no start-up code, no I/O.
 * Every access lies within one cache line. It walks an array in strides, in random order and in
 * the way a server does: a few hot records, and one of many connections at a time. */

enum { WORDS = 1 << 16, RECORD_WORDS = 64, HOT_WORDS = 1 << 10 };

static volatile unsigned words[WORDS];
static volatile unsigned hot[HOT_WORDS];

static unsigned state = 1;

static unsigned next_random(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

__attribute__((noreturn)) void _start(void) {
    for (unsigned i = 0; i < WORDS; i += 8) words[i] = i;
    for (unsigned i = 0; i < 20000; i++) words[next_random() % WORDS] += 1;
    for (unsigned i = 0; i < 1000; i++) {
        unsigned record = next_random() % (WORDS / RECORD_WORDS) * RECORD_WORDS;
        for (unsigned word = 0; word < RECORD_WORDS; word += 4) words[record + word] += i;
        for (unsigned word = 0; word < HOT_WORDS; word += 32) hot[word] += words[record];
    }
    __asm__ volatile("syscall" : : "a"(60), "D"(0) : "rcx", "r11", "memory");
    __builtin_unreachable();
}
