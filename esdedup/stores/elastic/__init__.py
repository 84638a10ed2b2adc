"""Stores in a cluster of Elasticsearch or OpenSearch."""
