"""Parts that benchmarks share: texts, truth, servers, measuring."""
