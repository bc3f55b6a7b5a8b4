"""Results shown: rows for every format, then a renderer each."""
