"""Dynamic batching: queues, worker threads, throughput."""
