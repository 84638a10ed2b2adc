"""Servers and images for machines without a registry, built from published jars and packages."""
