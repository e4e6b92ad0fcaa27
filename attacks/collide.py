"""Two terms with one name: birthday over the training id. Good terms and bad ones."""
import os, time, hashlib, json, sys
from dataclasses import replace
sys.path.insert(0, ".")
from tests.client.world import World
w = World()
good = w.terms(); bad = w.terms(epsilon=40.0, reports=10_000, epochs=2**53-1, least_clients=1)
def template(t):
    s = json.dumps(replace(t, training=bytes(16)).as_dict(), sort_keys=True)
    a, b = s.split("0"*32); return a.encode(), b.encode()
(ga, gb), (ba, bb) = template(good), template(bad)
seen = {}
t0=time.time()
import random
n=int(float(sys.argv[1]))
sha=hashlib.sha256
for i in range(n):
    seen[sha(ga + b"%032x" % i + gb).digest()[:6]] = i
print("table", n, time.time()-t0, flush=True)
j=0
while True:
    d=sha(ba + b"%032x" % j + bb).digest()[:6]
    if d in seen: break
    j+=1
G=replace(good, training=bytes.fromhex("%032x"%seen[d])); B=replace(bad, training=bytes.fromhex("%032x"%j))
print("tries", j, "seconds", time.time()-t0); print(G.name, B.name, G.training.hex(), B.training.hex(), G==B)
