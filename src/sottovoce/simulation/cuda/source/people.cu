// Lists the people who take part in an epoch: in `with_history` those whose reports depend on their
// history, in `without_history` the others.

extern "C" __global__ void gather(const Setup *s) {
    Int stride = (Int)gridDim.x * blockDim.x;
    for (Int place = s->begin + (Int)blockIdx.x * blockDim.x + threadIdx.x; place < s->end;
         place += stride) {
        Int user = get_number(s, place);
        if (!takes_part(s, user)) continue;
        bool needs_history = s->always_needs_history;
        for (Int j = 0; j < s->reports && !needs_history; j++)
            needs_history = draw_report_words(s, user, j).at[2] >= s->threshold;
        int *list = needs_history ? s->with_history : s->without_history;
        int counter = needs_history ? WITH_HISTORY : WITHOUT_HISTORY;
        list[atomicAdd(s->counts + counter, 1)] = (int)(place - s->begin);
        atomicAdd(s->counts + CROWD, 1);
    }
}

// Adds the reports of the people in `without_history`: uniform directions.
extern "C" __global__ void report_without_history(const Setup *s) {
    Int many = s->counts[WITHOUT_HISTORY] * s->reports, stride = (Int)gridDim.x * blockDim.x;
    for (Int at = (Int)blockIdx.x * blockDim.x + threadIdx.x; at < many; at += stride) {
        Int place = s->begin + s->without_history[at / s->reports], j = at % s->reports;
        Word choice = draw_report_words(s, get_number(s, place), j).at[0];
        add_report(s, place, j, (UInt)__umul64hi(choice, s->n_signed));
    }
}
