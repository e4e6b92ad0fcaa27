"""Server and proxy know the moment: closes just behind now + lead. What is late by then is silence."""
import sys, tempfile
from pathlib import Path
sys.path.insert(0, ".")
from tests.client.world import *
import numpy as np
from sottovoce.client.timing import lead
for seconds in (0.5, 2.5):
    w=World(hold=0); now=1.5*DAY
    one=w.manifest(1)
    closes=int(now+lead(one))+1
    proxy=FakeProxy(w); proxy.publish(w.signed(1, closes=closes))
    with tempfile.TemporaryDirectory() as f:
        c=w.create(Path(f),1e6); w.now=now
        def slow(u,k):
            w.now+=seconds
            return words(u,k)
        def sleep(s): w.now+=s
        s=c.sync(proxy,jitter=3600,words=slow,sleep=sleep)
        print("computing took", seconds, "lead", round(lead(one),3), "->", s.outcome, "spent", s.spent, "moment known to within", round(closes-now-lead(one),2), "s; sent at", w.now-now)
