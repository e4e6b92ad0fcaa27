import sys,time,itertools,math
sys.path.insert(0, ".")
from tests.client.world import World
w=World(); worst=0
for eps,k,T,rho,n in itertools.product([1e-6,2.5,40.0],[1,10000],[1,20,2**53-1],[1e-300,1e-9,0.0318,0.5],[1,2,100,10**7]):
    t=time.time()
    try:
        p=w.terms(epsilon=eps,reports=k,epochs=T,loud_fraction=rho,least_clients=n).promise
        s=p.sentence()
        d=time.time()-t
        bad = not (0<=p.central<=p.local*(1+1e-9)) 
        if d>0.5 or bad: print(eps,k,T,rho,n,"->",p.local,p.central,round(d,2),"BAD" if bad else "")
    except Exception as e: print(eps,k,T,rho,n,type(e).__name__,e)
