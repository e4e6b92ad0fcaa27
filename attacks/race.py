"""recommend() while another process takes in new editions and keys."""
import sys, tempfile, threading
from pathlib import Path
sys.path.insert(0, ".")
from tests.client.world import *
from collections import Counter
w=World(); proxy=FakeProxy(w)
proxy.publish(w.signed(1))
with tempfile.TemporaryDirectory() as f:
    c=w.create(Path(f),1e6); w.now=1.5*DAY; c.sync(proxy); c.record([item(1)])
    found=Counter(); stop=threading.Event()
    def reader():
        r=w.open(Path(f))
        while not stop.is_set():
            try: r.recommend(3); found["ok"]+=1
            except Exception as e: found[type(e).__name__+": "+str(e)[-60:]]+=1
            try: r.status(); found["status ok"]+=1
            except Exception as e: found["status "+type(e).__name__+": "+str(e)[-60:]]+=1
    t=threading.Thread(target=reader); t.start()
    w.epoch_keys={e:w.epoch_keys[1] for e in range(1,500)}
    for e in range(2,120):
        proxy.publish(w.signed(e, opens=0, closes=10**9)); c._store.pause(on=True); c.sync(proxy)
    stop.set(); t.join(); print(found)
