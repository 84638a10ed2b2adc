"""Real Elasticsearch and OpenSearch servers for the tests."""
