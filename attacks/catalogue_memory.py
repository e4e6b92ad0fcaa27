import resource,time,sys
from sottovoce.protocol import Catalogue
raw=b'{"version":1,"items":['+b','.join([b'{"a":[]}']*7400000)+b']}'
print(len(raw)/2**20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss/1024)
t=time.time()
try: Catalogue.decode(raw)
except Exception as e: print(type(e).__name__, str(e)[:80])
print("peak MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss/1024, time.time()-t)
