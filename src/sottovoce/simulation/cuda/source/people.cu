// Who takes part in an epoch, and whose reports depend on their history at all.

extern "C" __global__ void gather(const Setup *s) {
    Int stride = (Int)gridDim.x * blockDim.x;
    for (Int place = s->begin + (Int)blockIdx.x * blockDim.x + threadIdx.x; place < s->end;
         place += stride) {
        Int user = number_of(s, place);
        if (!takes_part(s, user)) continue;
        bool looks = s->always_looks;
        for (Int j = 0; j < s->reports && !looks; j++)
            looks = report_words(s, user, j).at[2] >= s->threshold;
        int *list = looks ? s->looking : s->quiet;
        list[atomicAdd(s->counts + (looks ? LOOKING : QUIET), 1)] = (int)(place - s->begin);
        atomicAdd(s->counts + CROWD, 1);
    }
}

// Reports of people whose coins left no room for their history: uniform directions.
extern "C" __global__ void report_quiet(const Setup *s) {
    Int many = s->counts[QUIET] * s->reports, stride = (Int)gridDim.x * blockDim.x;
    for (Int at = (Int)blockIdx.x * blockDim.x + threadIdx.x; at < many; at += stride) {
        Int place = s->begin + s->quiet[at / s->reports], j = at % s->reports;
        Word choice = report_words(s, number_of(s, place), j).at[0];
        add_report(s, place, j, (UInt)__umul64hi(choice, s->n_signed));
    }
}
