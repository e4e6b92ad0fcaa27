"""A clock that is set back while a batch waits: sync sleeps for days and holds the lock."""
import sys, tempfile, threading
from pathlib import Path
sys.path.insert(0, ".")
from tests.client.world import *
from sottovoce.errors import *
w=World(hold=30*DAY); proxy=FakeProxy(w)
proxy.publish(w.signed(1))
with tempfile.TemporaryDirectory() as f:
    c=w.create(Path(f), 1e6)
    w.now=1.5*DAY
    def crash(s): raise KeyboardInterrupt
    # die while the finished batch waits
    n=0
    def sleep(s):
        global n
        n+=1
        w.now+=s
        if n==2: raise KeyboardInterrupt
    try: c.sync(proxy, jitter=3600, sleep=sleep)
    except KeyboardInterrupt: pass
    print("waiting", c.status().batches)
    w.now -= 20*DAY if w.now>20*DAY else 1.0*DAY
    def long(s):
        print("sleeps", s, "seconds")
        other=w.open(Path(f))
        for name,call in [("forget",other.forget),("accept",lambda:other.accept(w.terms())),("set_limit",lambda:other.set_limit(1.0))]:
            try: call(); print(name,"ok")
            except SottovoceError as e: print(name, type(e).__name__, e)
        w.now+=s
    print(c.sync(proxy, jitter=3600, sleep=long).outcome)
