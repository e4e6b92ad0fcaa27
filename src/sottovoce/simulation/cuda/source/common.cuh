// What every kernel uses: random words, who is simulated, small sums over a block.
//
// The arithmetic is that of sottovoce.model and sottovoce.mechanism, in the same order, one rounding
// for each operation (compiled without fused multiply-add): the same bits as on every other engine.
// `Setup`, the public numbers and the addresses of an epoch, is written by setup.py before this file.


struct Words {
    Word at[4];
};

// sottovoce.simulation.random_words.philox: four words for the counter (c0, c1, c2, 0).
__device__ Words philox(Word seed, Word purpose, Word c0, Word c1, Word c2) {
    Word x0 = c0, x1 = c1, x2 = c2, x3 = 0, k0 = seed, k1 = purpose;
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        Word high0 = __umul64hi(x0, PHILOX_MULTIPLIER0), low0 = x0 * PHILOX_MULTIPLIER0;
        Word high1 = __umul64hi(x2, PHILOX_MULTIPLIER1), low1 = x2 * PHILOX_MULTIPLIER1;
        x0 = high1 ^ x1 ^ k0;
        x1 = low1;
        x2 = high0 ^ x3 ^ k1;
        x3 = low0;
        k0 += PHILOX_KEY_STEP0;
        k1 += PHILOX_KEY_STEP1;
    }
    return Words{{x0, x1, x2, x3}};
}

__device__ Words report_words(const Setup *s, Int user, Int draw) {
    return philox(s->seed, REPORTS_KEY, draw, user, s->epoch);
}

__device__ Int number_of(const Setup *s, Int place) {
    return s->chosen ? s->chosen[place] : s->first + place;
}

// sottovoce.simulation.random_words.draw_participants of one user.
__device__ bool takes_part(const Setup *s, Int user) {
    if (s->turns == s->epochs) return true;
    Word left = s->turns;
    bool takes = false;
    Words words;
    for (Int each = 0; each <= s->epoch; each++) {
        if (each % 4 == 0) words = philox(s->seed, TURNS_KEY, each / 4, user, 0);
        takes = __umul64hi(words.at[each % 4], (Word)(s->epochs - each)) < left;
        left -= takes;
    }
    return takes;
}

// One person's history: a row of the data, and for a made person which items of it are forgotten.
struct History {
    Int start, size;
    Int user;
    bool made;
};

__device__ History history_of(const Setup *s, Int place, bool made) {
    Int row = place, user = number_of(s, place);
    if (made) row = __umul64hi(philox(s->seed, RESAMPLING_KEY, 0, user, 0).at[0], (Word)s->n_rows);
    return History{s->indptr[row], s->indptr[row + 1] - s->indptr[row], user, made};
}

// Whether the item at this place of the row is remembered: sottovoce.simulation.population.
__device__ bool remembers(const Setup *s, const History &own, Int t) {
    if (!own.made) return true;
    Words words = philox(s->seed, RESAMPLING_KEY, 1 + t / ITEMS_PER_DRAW, own.user, 0);
    int piece = t % ITEMS_PER_DRAW;
    return ((words.at[piece / 4] >> (16 * (piece % 4))) & 0xFFFF) >= DROPPED_OF_65536;
}

__device__ float score(const float *x, const float *row) {
    float total = x[0] * row[0];
    for (int f = 1; f < FACTORS; f++) total += x[f] * row[f];
    return total;
}

// The next one of `many` for this block; whoever ends early takes more. `shared` is one Int.
__device__ Int next_of(int *counter, Int many, Int *shared) {
    __syncthreads();
    if (threadIdx.x == 0) *shared = atomicAdd(counter, 1);
    __syncthreads();
    return *shared < many ? *shared : -1;
}

// Makes every count the sum of itself and all after it. `partial` has two places for each thread.
__device__ void sums_from_above(int *counts, int n, int *partial) {
    int threads = blockDim.x, me = threadIdx.x, each = (n + threads - 1) / threads;
    int begin = min(n, me * each), end = min(n, begin + each), total = 0;
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
    if (s->kept) s->kept[place * s->reports + j] = report;
}
