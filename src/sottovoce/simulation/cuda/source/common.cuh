// Functions for every kernel: random words, the simulated people, sums over a block of threads.
//
// All kernels compute in the same order of operations as sottovoce.core, and each operation is
// rounded (there is no fused multiply-add). So they give the same bits as every other engine.
// memory.py inserts the struct `Setup` before this file. It has the public numbers of an epoch and
// the addresses of all arrays.

struct Words {
    Word at[4];
};

// Returns four words for the counter (c0, c1, c2, 0), as sottovoce.simulation.random_words does.
__device__ Words draw_words(Word seed, Word purpose, Word c0, Word c1, Word c2) {
    Word x0 = c0, x1 = c1, x2 = c2, x3 = 0, k0 = seed, k1 = purpose;
    for (int round = 0; round < ROUNDS; round++) {
        Word high0 = __umul64hi(x0, MULTIPLIER0), low0 = x0 * MULTIPLIER0;
        Word high1 = __umul64hi(x2, MULTIPLIER1), low1 = x2 * MULTIPLIER1;
        x0 = high1 ^ x1 ^ k0;
        x1 = low1;
        x2 = high0 ^ x3 ^ k1;
        x3 = low0;
        k0 += WEYL0;
        k1 += WEYL1;
    }
    return Words{{x0, x1, x2, x3}};
}

__device__ Words draw_report_words(const Setup *s, Int user, Int draw) {
    return draw_words(s->seed, REPORTS, draw, user, s->epoch);
}

__device__ Int get_number(const Setup *s, Int place) {
    return s->chosen ? s->chosen[place] : s->first + place;
}

// Returns whether a user takes part: `draw_participants` of sottovoce.simulation.random_words.
__device__ bool takes_part(const Setup *s, Int user) {
    if (s->turns == s->epochs) return true;
    Word left = s->turns;
    bool takes = false;
    Words words;
    for (Int past = 0; past <= s->epoch; past++) {
        if (past % 4 == 0) words = draw_words(s->seed, TURNS, past / 4, user, 0);
        takes = __umul64hi(words.at[past % 4], (Word)(s->epochs - past)) < left;
        left -= takes;
    }
    return takes;
}

// One person's history: `size` items from `start` on. A resampled person lacks some of the items.
struct History {
    Int start, size;
    Int user;
    bool resampled;
};

__device__ History get_history(const Setup *s, Int place, bool resampled) {
    Int row = place, user = get_number(s, place);
    if (resampled)
        row = __umul64hi(draw_words(s->seed, RESAMPLED, 0, user, 0).at[0], (Word)s->n_rows);
    return History{s->indptr[row], s->indptr[row + 1] - s->indptr[row], user, resampled};
}

// Returns whether the person has the item at place `t` of the history. A resampled history drops
// some items (sottovoce.simulation.population).
__device__ bool is_remembered(const Setup *s, const History &own, Int t) {
    if (!own.resampled) return true;
    Words words = draw_words(s->seed, RESAMPLED, 1 + t / ITEMS_PER_DRAW, own.user, 0);
    int piece = t % ITEMS_PER_DRAW;
    return ((words.at[piece / 4] >> (16 * (piece % 4))) & 0xFFFF) >= DROPPED_OF_65536;
}

__device__ float compute_score(const float *x, const float *row) {
    float total = x[0] * row[0];
    for (int f = 1; f < FACTORS; f++) total += x[f] * row[f];
    return total;
}

// Takes the next number below `many` for this block of threads, or returns -1 if none is left. All
// blocks share `counter`, so a block that is done early takes more. `slot` is memory of the block.
__device__ Int take_next(int *counter, Int many, Int *slot) {
    __syncthreads();
    if (threadIdx.x == 0) *slot = atomicAdd(counter, 1);
    __syncthreads();
    return *slot < many ? *slot : -1;
}

// Adds to every count the sum of all counts after it. `partial` has two places for each thread.
__device__ void add_up_from_above(int *counts, int n, int *partial) {
    int threads = blockDim.x, me = threadIdx.x, share = (n + threads - 1) / threads;
    int begin = min(n, me * share), end = min(n, begin + share), total = 0;
    int group = (threads + 31) / 32, groups = (threads + group - 1) / group;
    __syncthreads();
    for (int i = begin; i < end; i++) total += counts[i];
    partial[me] = total;
    __syncthreads();
    if (me < groups) {
        total = 0;
        for (int i = me * group; i < min(threads, (me + 1) * group); i++) total += partial[i];
        partial[threads + me] = total;
    }
    __syncthreads();
    total = 0;
    for (int i = me + 1; i < min(threads, (me / group + 1) * group); i++) total += partial[i];
    for (int g = me / group + 1; g < groups; g++) total += partial[threads + g];
    for (int i = end - 1; i >= begin; i--) counts[i] = total += counts[i];
    __syncthreads();
}

__device__ void add_report(const Setup *s, Int place, Int j, UInt report) {
    atomicAdd(s->sums + (report >> 1), (report & 1) ? 1 : -1);
    if (s->reports_out) s->reports_out[place * s->reports + j] = report;
}
