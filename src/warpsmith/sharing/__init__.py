"""Archives in and out in forms that others read: Parquet in the columns the field knows, and training sets.

An archive comes in; files that `datasets.load_dataset` opens go out, with a card that says where every row is from. What
comes in from others is kept as unverified until it is judged here.
"""
