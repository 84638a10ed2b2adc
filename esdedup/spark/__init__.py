"""All pairs and groups on Spark: the extra `esdedup[spark]`."""
