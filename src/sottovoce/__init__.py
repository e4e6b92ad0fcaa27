"""The recommender that never learns what you did."""
