"""Our own decode engine on transformers: a model, a cache of one row a request, batches over captured sizes."""
