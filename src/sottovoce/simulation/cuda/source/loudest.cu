// The reports of sottovoce.core.loudest, with a block of threads for each person.
//
// A direction is a row r and a factor f (and a sign); its agreement is |a[r] x[f]|. The threshold
// is the smallest agreement of a loud direction. Rows are counted in bins by the upper bits of
// |a[r]|. This gives a bracket, a lower and an upper bound of the threshold. Only directions with
// an agreement within the bracket are compared exactly: in float64, where the product of two
// float32 is not rounded.

// The bin of a float32 omits its 16 lowest bits, so there are 128 bins for every power of two.
#define BIN_SHIFT 16
#define MAGNITUDE_MASK 0x7FFFFFFFu
#define INFINITE_FLOAT __uint_as_float(0x7F800000u)
// A value multiplied by this is at least one bin lower, even after rounding.
#define ONE_BIN_LOWER (1 - 0x1p-6)
// Number of values that a thread reads before it uses the first.
#define READS_AHEAD 8
// Number of rows that a thread looks up in the borders at the same time.
#define ROWS_PER_SEARCH 4
// The threshold is searched for within 128 powers of two below the largest agreement. This is the
// difference of their float64 bits.
#define SEARCHED_OCTAVES (128ll << 52)

// Writes a key for every entry of the data's rows from `begin` to `end`. Sorting the keys orders
// the entries by row, then by block of items, then by place in the history.
extern "C" __global__ void fill_keys(const Setup *s) {
    Int blocks = s->n_lines / s->inner;
    for (Int row = s->begin + blockIdx.x; row < s->end; row += gridDim.x)
        for (Int e = s->indptr[row] + threadIdx.x; e < s->indptr[row + 1]; e += blockDim.x) {
            Int block = s->places[s->indices[e]] / s->inner, t = e - s->indptr[row];
            s->keys[e - s->indptr[s->begin]] = ((row - s->begin) * blocks + block) * s->longest + t;
        }
}

extern "C" __global__ void fill_by_block(const Setup *s) {
    Int start = s->indptr[s->begin], many = s->indptr[s->end] - start;
    Int stride = (Int)gridDim.x * blockDim.x;
    for (Int e = (Int)blockIdx.x * blockDim.x + threadIdx.x; e < many; e += stride)
        s->by_block[start + e] = (int)(s->keys[e] % s->longest);
}

// Memory that the threads of a block share, for one person. R is the number of rows.
struct Scratch {
    float *a;             // R: the rows
    UInt *loud;           // R bytes: number of factors with which each row is above the threshold
    int *ends;            // R / ROWS_PER_GROUP + 1: directions above it in this or a later group
    float x[FACTORS];
    double sizes[FACTORS];
    int by_size[FACTORS];     // the factors, largest first; in this order:
    double inverse[FACTORS];  // a little less than 1 / size
    // Rows between these borders are near the threshold with this factor.
    float low[PADDED_FACTORS], high[PADDED_FACTORS];
    union {
        int bins[BIN_COUNT];  // rows in a bin or above
        struct {
            double near[MAX_NEAR];  // agreements of directions in the bracket, if they fit
            int near_at[MAX_NEAR];  // these directions
        };
    };
    int parts[BRACKET_PARTS];  // directions in a part of the bracket or above
    double close[MAX_CLOSE];
    Int tied[MAX_TIED];   // directions at the threshold, if they fit
    int partial[2 * MAX_THREADS];
    UInt largest;
    int n_near, n_close, n_tied, n_heads, at;
    int n_sure, missing, inside;
    Int next;
    double threshold, lower, upper;
    Int bracket_low, bracket_high;
};

// A touched item: what it adds to its rows, and its place in the blocks.
struct Entry {
    float weight;
    int place;
};

// The entries of one person in one block of items, from `first` to `end - 1`.
struct Segment {
    int first, end;
};

// Computes the rows of a person as sottovoce.core.blocks does: adds the touched items one after the
// other, and subtracts the predictions of all items.
__device__ void fill_rows(const Setup *s, const History &own, const float *predicted, Scratch *m) {
    Entry *entries = (Entry *)s->entries + blockIdx.x * s->longest;
    Segment *segments = (Segment *)s->segments + blockIdx.x * s->longest;
    float alpha = (float)s->alpha;
    int inner = (int)s->inner, bits = __popc(inner - 1);  // a power of two
    for (Int r = threadIdx.x; r < s->n_lines; r += blockDim.x) m->a[r] = 0;
    if (threadIdx.x == 0) m->n_heads = 0, m->largest = 0;
    __syncthreads();
    for (int t = threadIdx.x; t < own.size; t += blockDim.x) {
        // Ordered by block, and by item within a block.
        Int from = s->by_block[own.start + t], item = s->indices[own.start + from];
        float weight = (1.0f + alpha) - alpha * compute_score(m->x, s->V + item * FACTORS);
        weight = is_remembered(s, own, from) ? s->signs[item] * weight : 0.0f;
        entries[t] = Entry{weight, s->places[item]};
    }
    __syncthreads();
    for (int t = threadIdx.x; t < own.size; t += blockDim.x) {
        int block = entries[t].place >> bits, end = t + 1;
        if (t > 0 && entries[t - 1].place >> bits == block) continue;
        while (end < own.size && entries[end].place >> bits == block) end++;
        segments[atomicAdd(&m->n_heads, 1)] = Segment{t, end};
    }
    __syncthreads();
    for (int w = threadIdx.x; w < m->n_heads << bits; w += blockDim.x) {
        Segment segment = segments[w >> bits];
        int line = w & (inner - 1), place = 0;
        float total = 0;
        for (int t = segment.first; t < segment.end; t++) {
            Entry entry = entries[t];
            place = entry.place;
            total += (__popc(line & place) & 1) ? -entry.weight : entry.weight;
        }
        m->a[(place & -inner) + line] = total;
    }
    for (int half = inner; half < s->block; half *= 2) {
        __syncthreads();
        for (int w = threadIdx.x; w < s->n_lines / 2; w += blockDim.x) {
            int r = (w & -half) * 2 + (w & (half - 1));
            float first = m->a[r], second = m->a[r + half];
            m->a[r] = first + second;
            m->a[r + half] = first - second;
        }
    }
    __syncthreads();
    UInt most = 0;
    for (Int base = threadIdx.x; base < s->n_lines; base += READS_AHEAD * blockDim.x) {
        // Read several values before the first is used, because each read waits for memory.
        float some[READS_AHEAD];
        for (int i = 0; i < READS_AHEAD; i++) {
            Int r = base + i * blockDim.x;
            some[i] = r < s->n_lines ? predicted[r] : 0.0f;
        }
        for (int i = 0; i < READS_AHEAD; i++) {
            Int r = base + i * blockDim.x;
            if (r >= s->n_lines) break;
            m->a[r] -= some[i];
            most = max(most, __float_as_uint(m->a[r]) & MAGNITUDE_MASK);
        }
    }
    atomicMax(&m->largest, most);
    __syncthreads();
}

// Computes for some people the predictions of all items: x times the item rows.
extern "C" __global__ void predict_rows(const Setup *s) {
    float *vectors = (float *)block_memory;
    Int first = s->from + blockIdx.x / s->line_blocks * PEOPLE_PER_PREDICTION;
    int people = (int)min((Int)PEOPLE_PER_PREDICTION, s->to - first);
    for (int e = threadIdx.x; e < people * FACTORS; e += blockDim.x)
        vectors[e] = s->X[(Int)s->with_history[first + e / FACTORS] * FACTORS + e % FACTORS];
    __syncthreads();
    for (Int r = blockIdx.x % s->line_blocks * blockDim.x + threadIdx.x; r < s->n_lines;
         r += s->line_blocks * blockDim.x) {
        float row[FACTORS];
        for (int f = 0; f < FACTORS; f++) row[f] = s->item_rows[f * s->n_lines + r];
        for (int u = 0; u < people; u++) {
            float total = 0;
            for (int f = 0; f < FACTORS; f++) total += vectors[u * FACTORS + f] * row[f];
            s->predicted[(first - s->from + u) * s->n_lines + r] = total;
        }
    }
}

// Sorts the factors by their size |x[f]|, largest first.
__device__ void sort_factors(Scratch *m) {
    for (int f = threadIdx.x; f < FACTORS; f += blockDim.x) {
        int before = 0;
        for (int g = 0; g < FACTORS; g++)
            before += m->sizes[g] > m->sizes[f] || (m->sizes[g] == m->sizes[f] && g < f);
        m->by_size[before] = f;
        m->inverse[before] = (1 - 0x1p-30) / m->sizes[f];
    }
    __syncthreads();
}

// Returns the bin of a magnitude, or BIN_COUNT if it is above that of the largest row.
__device__ int get_bin(double value, UInt most) {
    float rounded = (float)value;
    if (!(rounded <= __uint_as_float(most))) return BIN_COUNT;  // also if it is NaN, from 0 / 0
    int lowest = (int)(most >> BIN_SHIFT) - (BIN_COUNT - 1);
    return max((int)(__float_as_uint(rounded) >> BIN_SHIFT) - lowest, 0);
}

// Counts the directions whose agreement is at least this value. The count may include directions
// with a smaller agreement if their row is in the same bin.
__device__ int count_agreeing(const Scratch *m, double value) {
    int total = 0;
    for (int p = 0; p < FACTORS; p++) {
        int bin = get_bin(value * m->inverse[p], m->largest);
        if (bin < BIN_COUNT) total += m->bins[bin];
    }
    return total;
}

// Narrows the bracket, whose ends are the bits of float64 numbers. Each thread tries one number
// between them.
__device__ void narrow_bracket(Scratch *m, int loud) {
    Int low = m->bracket_low, high = m->bracket_high, step = (high - low) / blockDim.x + 1;
    Int mine = low + threadIdx.x * step;
    __syncthreads();
    if (threadIdx.x == 0) m->at = -1;
    __syncthreads();
    if (mine < high && count_agreeing(m, __longlong_as_double(mine)) >= loud)
        atomicMax(&m->at, (int)threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0 && m->at >= 0) {
        m->bracket_low = low + m->at * step;
        m->bracket_high = min(high, m->bracket_low + step);
    } else if (threadIdx.x == 0) {
        m->bracket_high = min(high, low + step);
    }
    __syncthreads();
}

// Sets the bracket of the threshold, which is at least `lower` and below `upper`.
__device__ void bracket_threshold(const Setup *s, Scratch *m) {
    for (int b = threadIdx.x; b < BIN_COUNT; b += blockDim.x) m->bins[b] = 0;
    __syncthreads();
    int lowest = (int)(m->largest >> BIN_SHIFT) - (BIN_COUNT - 1);
    for (Int r = threadIdx.x; r < s->n_lines; r += blockDim.x) {
        UInt bits = __float_as_uint(m->a[r]) & MAGNITUDE_MASK;
        atomicAdd(&m->bins[max((int)(bits >> BIN_SHIFT) - lowest, 0)], 1);
    }
    add_up_from_above(m->bins, BIN_COUNT, m->partial);
    if (threadIdx.x == 0) {
        double largest = m->sizes[m->by_size[0]];
        m->bracket_high = __double_as_longlong(2 * (double)__uint_as_float(m->largest) * largest);
        m->bracket_low = max(m->bracket_high - SEARCHED_OCTAVES, 0ll);
    }
    __syncthreads();
    Int lowest_value = m->bracket_low;
    while (m->bracket_high - m->bracket_low > (1ll << 42)) narrow_bracket(m, (int)s->loud);
    if (threadIdx.x == 0) {
        double least = ONE_BIN_LOWER * __longlong_as_double(m->bracket_low);
        bool bounded = m->bracket_low > lowest_value;
        // The lowest bin has no lower end, and the bins of subnormal numbers are wide.
        for (int f = 0; f < FACTORS; f++) {
            double row = least / m->sizes[f];
            bounded = bounded && row >= 0x1p-120 && get_bin(row, m->largest) > 0;
        }
        m->lower = bounded ? least : 0.0;
        m->upper = __longlong_as_double(m->bracket_high);
    }
    __syncthreads();
}

// Sets the borders `low` and `high` for each factor, in ascending order. A row between them may
// have an agreement in the bracket; the borders are a little wider than necessary.
__device__ void set_borders(Scratch *m) {
    for (int p = threadIdx.x; p < PADDED_FACTORS; p += blockDim.x) {
        double size = p < FACTORS ? m->sizes[m->by_size[p]] : 0;
        m->low[p] = size > 0 ? (float)(m->lower / size * (1 - 0x1p-20))
                             : (p < FACTORS && m->lower == 0 ? 0.0f : INFINITE_FLOAT);
        m->high[p] = size > 0 ? (float)(m->upper / size * (1 + 0x1p-20)) : INFINITE_FLOAT;
    }
    __syncthreads();
}

// Returns how many borders are at or below this magnitude.
__device__ int count_borders_below(const float *borders, float size) {
    int below = 0;
    for (int step = PADDED_FACTORS / 2; step > 0; step /= 2)
        if (borders[below + step - 1] <= size) below += step;
    return below;
}

__device__ int get_loud_count(const Scratch *m, Int r) {
    return (m->loud[r / 4] >> (8 * (r % 4))) & 0xFF;
}

// Counts the directions above the bracket, and lists the agreements of those in it.
__device__ void list_near(const Setup *s, Scratch *m) {
    if (threadIdx.x == 0) m->n_sure = m->n_near = 0;
    __syncthreads();
    int n_sure = 0;
    for (Int base = threadIdx.x; base < s->n_lines; base += ROWS_PER_SEARCH * blockDim.x) {
        // Look up several rows at the same time, because each search waits for memory.
        int first[ROWS_PER_SEARCH], end[ROWS_PER_SEARCH];
        for (int i = 0; i < ROWS_PER_SEARCH; i++) {
            Int r = base + i * blockDim.x;
            float size = r < s->n_lines ? fabsf(m->a[r]) : -1.0f;
            first[i] = count_borders_below(m->high, size);
            end[i] = count_borders_below(m->low, size);
        }
        for (int i = 0; i < ROWS_PER_SEARCH; i++) {
            Int r = base + i * blockDim.x;
            if (r >= s->n_lines) break;
            ((unsigned char *)m->loud)[r] = (unsigned char)first[i];
            n_sure += first[i];
            for (int p = first[i]; p < end[i]; p++) {
                int n = atomicAdd(&m->n_near, 1), f = m->by_size[p];
                if (n >= MAX_NEAR) continue;
                m->near[n] = m->sizes[f] * (double)fabsf(m->a[r]);
                m->near_at[n] = (int)r * FACTORS + f;
            }
        }
    }
    atomicAdd(&m->n_sure, n_sure);
    __syncthreads();
}

// Calls a function with the agreement and the index of every direction in the bracket. They come
// from the list, or are computed again from all rows if the list is too short.
template <class Do> __device__ void for_each_near(const Setup *s, Scratch *m, Do what) {
    if (m->n_near <= MAX_NEAR) {
        for (int i = threadIdx.x; i < m->n_near; i += blockDim.x) what(m->near[i], m->near_at[i]);
        return;
    }
    for (Int r = threadIdx.x; r < s->n_lines; r += blockDim.x) {
        float size = fabsf(m->a[r]);
        int p = count_borders_below(m->high, size), end = count_borders_below(m->low, size);
        for (; p < end; p++) {
            int f = m->by_size[p];
            what(m->sizes[f] * (double)size, (int)r * FACTORS + f);
        }
    }
}

// A part of the bracket: the float64 numbers whose bits are from `first` to `first + width - 1`.
struct Part {
    Int first, width;
};

__device__ bool is_in_part(Part part, double value) {
    Int at = __double_as_longlong(value) - part.first;
    return at >= 0 && at < part.width;
}

// Divides a part and returns the smaller part that contains the threshold. `missing` becomes the
// threshold's rank in it, counted from 1 at the largest agreement.
__device__ Part narrow_part(const Setup *s, Scratch *m, Part part) {
    Int width = (part.width + BRACKET_PARTS - 1) / BRACKET_PARTS;
    for (int b = threadIdx.x; b < BRACKET_PARTS; b += blockDim.x) m->parts[b] = 0;
    __syncthreads();
    for_each_near(s, m, [=](double value, int) {
        if (is_in_part(part, value))
            atomicAdd(&m->parts[(__double_as_longlong(value) - part.first) / width], 1);
    });
    add_up_from_above(m->parts, BRACKET_PARTS, m->partial);
    int missing = m->missing;
    __syncthreads();
    for (int b = threadIdx.x; b < BRACKET_PARTS; b += blockDim.x) {
        int above = b + 1 < BRACKET_PARTS ? m->parts[b + 1] : 0;
        if (above < missing && missing <= m->parts[b]) {
            m->at = b;
            m->inside = m->parts[b] - above;
            m->missing = missing - above;
        }
    }
    __syncthreads();
    return Part{part.first + m->at * width, width};
}

// Finds the threshold among the agreements in the bracket.
__device__ void find_threshold(const Setup *s, Scratch *m) {
    Part part = {0, __double_as_longlong(4 * m->upper)};
    if (m->lower > 0) {
        part.first = __double_as_longlong(m->lower * (1 - 0x1p-10));
        part.width = __double_as_longlong(m->upper * (1 + 0x1p-10)) - part.first;
    }
    do part = narrow_part(s, m, part);
    while (m->inside > MAX_CLOSE && part.width > 1);
    if (threadIdx.x == 0) m->n_close = 0;
    __syncthreads();
    for_each_near(s, m, [=](double value, int) {
        if (!is_in_part(part, value)) return;
        int n = atomicAdd(&m->n_close, 1);
        if (n < MAX_CLOSE) m->close[n] = value;
    });
    __syncthreads();
    int n = min(m->n_close, MAX_CLOSE);  // if there are more, all of them are the same number
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int larger = 0, equal = 0;
        for (int other = 0; other < n; other++) {
            larger += m->close[other] > m->close[i];
            equal += m->close[other] == m->close[i];
        }
        if (part.width == 1 || (larger < m->missing && m->missing <= larger + equal))
            m->threshold = m->close[i];
    }
    __syncthreads();
}

__device__ Int sign_direction(const Scratch *m, Int index) {
    return index << 1 | (Int)((m->a[index / FACTORS] > 0) != (m->x[index % FACTORS] > 0));
}

// Counts the directions above the threshold by row and by group of rows, and lists the directions
// at the threshold.
__device__ void count_loud(const Setup *s, Scratch *m) {
    int groups = (int)((s->n_lines + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP);
    if (threadIdx.x == 0) m->n_tied = 0, m->ends[groups] = 0;
    __syncthreads();
    for_each_near(s, m, [=](double agreement, int index) {
        int r = index / FACTORS;
        if (agreement > m->threshold) atomicAdd(&m->loud[r / 4], 1u << (8 * (r % 4)));
        if (agreement != m->threshold) return;
        bool both = m->threshold == 0;
        Int direction = both ? (Int)index << 1 : sign_direction(m, index);
        int n = atomicAdd(&m->n_tied, both ? 2 : 1);
        if (n < MAX_TIED) m->tied[n] = direction;
        if (both && n + 1 < MAX_TIED) m->tied[n + 1] = direction | 1;
    });
    __syncthreads();
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        int total = 0;
        Int end = min(s->n_lines, (Int)(g + 1) * ROWS_PER_GROUP);
        for (Int r = (Int)g * ROWS_PER_GROUP; r < end; r++)
            total += get_loud_count(m, r);
        m->ends[g] = total;
    }
    add_up_from_above(m->ends, groups, m->partial);
}

// Returns the direction with this rank among those above the threshold, ordered by index.
__device__ Int get_nth_loud(const Setup *s, const Scratch *m, int rank) {
    int groups = (int)((s->n_lines + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP);
    int all = m->ends[0], low = 0, high = groups - 1;
    // Find the first group that ends beyond the rank.
    while (low < high) {
        int middle = (low + high) / 2;
        if (all - m->ends[middle + 1] > rank) high = middle;
        else low = middle + 1;
    }
    int left = rank - (all - m->ends[low]);
    Int r = (Int)low * ROWS_PER_GROUP;
    while (left >= get_loud_count(m, r)) left -= get_loud_count(m, r++);
    double size = fabsf(m->a[r]);
    int f = -1;
    while (left >= 0) left -= m->sizes[++f] * size > m->threshold;
    return sign_direction(m, r * FACTORS + f);
}

// Returns the direction with this rank among those at the threshold, ordered by
// `(signed + offset) mod 2n`.
__device__ Int get_nth_tied(const Setup *s, const Scratch *m, int rank, Int offset) {
    Int many = (Int)s->n_signed;
    if (m->n_tied <= MAX_TIED) {
        for (int i = 0; i < m->n_tied; i++) {
            Int mine = (m->tied[i] + offset) % many;
            int before = 0;
            for (int other = 0; other < m->n_tied; other++)
                before += (m->tied[other] + offset) % many < mine;
            if (before == rank) return m->tied[i];
        }
    }
    for (Int at = 0; at < many; at++) {
        Int direction = (at + many - offset) % many, index = direction >> 1;
        double agreement = m->sizes[index % FACTORS] * (double)fabsf(m->a[index / FACTORS]);
        bool fits = m->threshold == 0 || sign_direction(m, index) == direction;
        if (fits && agreement == m->threshold && rank-- == 0) return direction;
    }
    return 0;
}

__device__ void find_loud(const Setup *s, Scratch *m) {
    sort_factors(m);
    bracket_threshold(s, m);
    set_borders(m);
    list_near(s, m);
    if (threadIdx.x == 0) m->missing = (int)s->loud - m->n_sure, m->threshold = 0;
    __syncthreads();
    // If fewer directions are near than are missing, the other loud ones have an agreement of 0.
    if (m->missing <= m->n_near) find_threshold(s, m);
    count_loud(s, m);
}

// Places the rows behind `Scratch` in shared memory, or in the card's memory if they do not fit.
__device__ void place_scratch(const Setup *s, Scratch *m) {
    Int groups = (s->n_lines + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP, bytes = (s->n_lines + 3) / 4;
    float *rest = (float *)(m + 1);
    if (s->rows_on_card) rest = s->rows + blockIdx.x * (s->n_lines + bytes + groups + 1);
    m->a = rest;
    m->loud = (UInt *)(rest + s->n_lines);
    m->ends = (int *)(m->loud + bytes);
}

extern "C" __global__ void report_loudest(const Setup *s) {
    Scratch *m = (Scratch *)block_memory;
    if (threadIdx.x == 0) place_scratch(s, m);
    Int many = s->to - s->from, n;
    while ((n = take_next(s->counts + NEXT_REPORTED, many, &m->next)) >= 0) {
        Int at = s->with_history[s->from + n], place = s->begin + at;
        History own = get_history(s, place, s->resampled);
        for (int f = threadIdx.x; f < FACTORS; f += blockDim.x) {
            m->x[f] = s->X[at * FACTORS + f];
            m->sizes[f] = fabsf(m->x[f]);
        }
        __syncthreads();
        fill_rows(s, own, s->predicted + n * s->n_lines, m);
        bool silent = true;
        for (int f = 0; f < FACTORS && m->largest; f++) silent = silent && m->x[f] == 0;
        if (!silent) find_loud(s, m);
        Int offset = __umul64hi(draw_report_words(s, own.user, s->reports).at[0], s->n_signed);
        int above = silent ? 0 : m->ends[0];
        for (Int j = threadIdx.x; j < s->reports; j += blockDim.x) {
            Words words = draw_report_words(s, own.user, j);
            Int rank = __umul64hi(words.at[0], (Word)s->loud), named;
            if (words.at[2] < s->threshold) named = __umul64hi(words.at[0], s->n_signed);
            else if (silent) named = (rank - offset + (Int)s->n_signed) % (Int)s->n_signed;
            else if (rank < above) named = get_nth_loud(s, m, (int)rank);
            else named = get_nth_tied(s, m, (int)rank - above, offset);
            add_report(s, place, j, (UInt)named);
        }
        __syncthreads();
    }
}
