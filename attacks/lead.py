"""Time of make_batch at the edges of the shapes, by history size, against lead."""
import sys, time, resource
import numpy as np
from types import SimpleNamespace as NS
from sottovoce.mechanism import MECHANISMS, Shape, os_words
from sottovoce.model import Histories, user_vectors
from sottovoce.protocol import new_epoch_key, public_key_of, seal_reports
mech, M, F, k, n = sys.argv[1], *map(int, sys.argv[2:6])
V = (0.1*np.random.default_rng(1).standard_normal((M,F))).astype(np.float32)
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
par = {} if mech=="coordinate" else {"directions_seed":1}
R = 1<<(M-1).bit_length()
if mech=="loudest": par["loud"]=max(R//2,1)
m = MECHANISMS[mech].from_manifest(Shape(M,F,40.0), 1.0, par)
lead = 2+M*F*F/2**23+k/200
rows = sorted(np.random.default_rng(2).choice(M, n, replace=False).tolist())
t=time.perf_counter()
own = Histories.from_lists([rows], M)
x = user_vectors(V, own, alpha=40.0, regularization=1e-2)
t1=time.perf_counter()
r = m.reports(V,x,own,os_words(1,k))
t2=time.perf_counter()
key=public_key_of(new_epoch_key())
s=seal_reports(r[0],key,bytes(32))
t3=time.perf_counter()
print(f"{mech} M={M} F={F} k={k} n={n}: vector {t1-t:.2f} reports {t2-t1:.2f} seal {t3-t2:.2f} total {t3-t:.2f} lead {lead:.2f} peak {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss-base)/1024:.0f} MiB over {base/1024:.0f}", flush=True)
