"""Honest numbers: rankings, hit ratio, NDCG, MRR, recall, coverage, intervals over runs."""
