"""The JSON of the fields that esdedup adds to a mapping; read by `esdedup.stores.mapping`."""
