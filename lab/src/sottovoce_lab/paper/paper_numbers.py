"""The numbers that the paper printed."""

# HR@10 of Table 4, by users and items; eps 2.5, k 100, 20 epochs. None: all items.
TABLE4: dict[tuple[int | None, int | None], float] = {
    (1_000, 1_000): 0.1160,
    (1_000, 5_000): 0.1010,
    (1_000, None): 0.1090,
    (10_000, 1_000): 0.6325,
    (10_000, 5_000): 0.1988,
    (10_000, None): 0.1216,
    (50_000, 1_000): 0.6972,
    (50_000, 5_000): 0.6801,
    (50_000, None): 0.5654,
}
# HR@2, HR@5 and HR@10 of Table 5: the full set, the latest interaction left out, eps 2.5.
TABLE5 = {
    "MF-NP": (0.4310, 0.6700, 0.8179),
    "DPLCF": (0.4203, 0.5969, 0.7000),
    "FMF-LDP-100": (0.2163, 0.3755, 0.5131),
    "FMF-LDP-250": (0.2315, 0.3980, 0.5384),
    "Random": (0.0200, 0.0500, 0.1000),
}
# HR@10 by users and k after 10 and 30 epochs, roughly: from the description of figure 3.
FIGURE3: dict[tuple[int | None, int], dict[int, float]] = {
    (50_000, 100): {10: 0.65, 30: 0.70},
    (50_000, 50): {10: 0.42, 30: 0.70},
    (10_000, 100): {10: 0.55, 30: 0.65},
    (10_000, 50): {10: 0.30, 30: 0.60},
}
# HR@10 of a model that knows nothing.
CHANCE = 0.1
# HR@10 by users, epsilon and k after 20 epochs with 1,000 items, roughly: from the description of
# figure 2. For 1,000 people with k 100 and 250 it names no epsilon; we assume the largest one.
FIGURE2: dict[tuple[int | None, float, int], float] = {
    **{
        (users, epsilon, 1): CHANCE
        for users in (1_000, 10_000, 50_000)
        for epsilon in (0.5, 1.0, 2.5, 6.0)
    },
    **{(1_000, epsilon, 50): CHANCE for epsilon in (0.5, 1.0, 2.5, 6.0)},
    (1_000, 6.0, 100): 0.15,
    (1_000, 6.0, 250): 0.35,
    **{(10_000, 0.5, k): CHANCE for k in (50, 100, 250)},
    (10_000, 6.0, 250): 0.70,
    (50_000, 0.5, 50): 0.40,
    (50_000, 0.5, 250): 0.60,
    (50_000, 6.0, 250): 0.70,
    **{(users, 2.5, 100): TABLE4[users, 1_000] for users in (1_000, 10_000, 50_000)},
}
FIGURE2_NOTE = (
    "The paper's column has what the description of its picture says, roughly, and Table 4 where "
    "that has the same setting."
)
# Bytes that a client gets in an epoch, by items: "about 20 KB", "about 0.2 MB".
DOWNLOAD_BYTES = {1_000: 20_000, 9_781: 200_000}
# Bytes of a report: "about 4k bytes", 0.4 KB for k = 100.
BYTES_PER_REPORT = 4
